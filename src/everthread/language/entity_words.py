"""How exact things are spelled: the pattern that finds them, and the words that say nothing beside them.

Tables that `language.entities` reads. Every repetition in the pattern is bounded or begins where a word begins, so that
no text takes more than linear time.
"""

from __future__ import annotations

import re

LONGEST = 160  # characters of one fact

_MONTHS = (
    r"(?i:jan(?:uary|uar|vier)?|feb(?:ruary|ruar)?|février|march|märz|mars|apr(?:il)?|avril|may|mai|mayo|june?|juni|juin|"
    r"july?|juli|juillet|aug(?:ust)?|août|sept?(?:ember)?|septembre|oct(?:ober)?|oktober|octobre|nov(?:ember)?|novembre|"
    r"dec(?:ember)?|dezember|décembre|enero|febrero|marzo|abril|junio|julio|agosto|septiembre|octubre|noviembre|"
    r"diciembre)"
)
_UNITS = (
    r"(?:%|‰|°\s?[CF]?|[€$£¥₹]|µs|ns|ms|secs?|seconds?|s|mins?|minutes?|hours?|hrs?|h|days?|weeks?|months?|years?|"
    r"km/h|mph|km|cm|mm|m²|m|miles?|mi|ft|feet|inch(?:es)?|kg|mg|g|lbs?|pounds?|oz|tons?|ml|l|litres?|liters?|"
    r"[KMGT]i?B|[KMGT]bit/s|kbps|Mbps|Gbps|bytes?|tokens?|[kM]|W|kW|kWh|V|A|Hz|kHz|MHz|GHz|dpi|px|pt|"
    r"USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|dollars?|euros?|francs?|cents?|percent|per cent|pieces?|people|persons?|"
    r"Stunden?|Tage?|Wochen?|Monate?|Jahre?|Minuten?|Euro|heures?|jours?|semaines?|mois|ans|horas?|días|semanas|meses|años)"
)
_PROGRAMS = (
    r"(?:git|docker|kubectl|helm|npm|npx|yarn|pnpm|pip3?|uv|poetry|python3?|pytest|node|cargo|rustc|go|make|cmake|gcc|"
    r"bash|sh|ssh|scp|rsync|curl|wget|psql|mysql|sqlite3|redis-cli|terraform|ansible|aws|gcloud|az|systemctl|journalctl|"
    r"sudo|apt|apt-get|brew|chmod|chown|grep|sed|awk|tar|zip|unzip|ls|cd|cp|mv|rm|cat|tail|head|find|kill|ps|top|df|du|"
    r"alembic|django-admin|flask|uvicorn|gunicorn|ffmpeg|openssl|crontab|export|everthread)"
)
_EXTENSIONS = (
    r"(?:py|pyi|js|ts|tsx|jsx|mjs|json|jsonl|toml|ya?ml|md|rst|txt|csv|tsv|xlsx?|docx?|pptx?|pdf|png|jpe?g|gif|svg|html?|"
    r"css|scss|sql|db|sqlite|sh|bash|zsh|rs|go|java|kt|c|h|cpp|hpp|cs|rb|php|swift|ini|cfg|conf|env|log|lock|xml|zip|gz|"
    r"tar|tgz|parquet|ipynb|proto|tf|service|pem|key|bak|wav|mp3|mp4)"
)
_CAPITAL = r"[^\W\d_a-zß-öø-ÿ\u0250-\uffff]"
PATTERN = re.compile(
    rf"""
      (?P<code> `[^`\n]{{2,{LONGEST}}}` )
    | (?P<shell> ^[ \t]*(?:\$|>>>)[ ][^\n]{{2,{LONGEST}}} )
    | (?P<command> (?<![\w./-]) {_PROGRAMS}(?:[ ](?:--?[a-zA-Z][\w=:./-]*|[\w./:@=~"'+-]+)){{1,12}} )
    | (?P<skip> (?<![\w.@/+-]) [a-z]{{1,30}} (?=[ ,;!?)\n]) )
    | (?P<url> (?<![\w]) (?:[a-zA-Z][a-zA-Z0-9+.-]{{1,12}}://|www\.) [^\s<>"'`|\\^{{}}，。；、）」]{{3,400}} )
    | (?P<email> (?<![\w.+%-]) [\w.+%-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,5}} )
    | (?P<path> (?<![\w/.~:\\-])
        (?: (?:~|\.{{1,2}})?/[\w.@+~-]+(?:/[\w.@+~-]+)*/?
          | [A-Za-z]:\\[^\s"'<>|?*]{{1,200}}
          | [\w.@+-]{{1,80}}(?:/[\w.@+-]{{1,80}})+\.{_EXTENSIONS}(?![\w])
          | (?:[\w.@+-]{{2,80}}/){{2,12}}[\w.@+-]{{0,80}}
          | [\w-]{{1,80}}(?:\.[\w-]{{1,40}}){{0,3}}\.{_EXTENSIONS}(?![\w@]) ) )
    | (?P<date> (?<![\w.,/-])
        (?: \d{{4}}-\d{{2}}-\d{{2}}(?:[T ]\d{{2}}:\d{{2}}(?::\d{{2}}(?:\.\d{{1,6}})?)?(?:Z|[+-]\d{{2}}:?\d{{2}})?)?
          | \d{{1,2}}[./]\d{{1,2}}[./](?:\d{{4}}|\d{{2}})
          | \d{{1,2}}(?:st|nd|rd|th|\.)?[ ](?:of[ ]|de[ ])?{_MONTHS}\b\.?(?:,?[ ](?:de[ ])?\d{{4}})?
          | {_MONTHS}\.?[ ]\d{{1,2}}(?:st|nd|rd|th)?\b(?!:)(?:,?[ ]\d{{4}})?
          | \d{{1,2}}:\d{{2}}(?::\d{{2}})?(?:[ ]?[ap]\.?m\b\.?)?(?:[ ](?:UTC|GMT|CET|EST|PST|Uhr)\b)?
          | \d{{1,2}}[ ]?(?:[ap]\.?m\b\.?|Uhr\b|o'clock\b) ) (?![\d-]) )
    | (?P<cjkdate> (?<!\d) (?: \d{{2,4}}年(?:\d{{1,2}}月)?(?:\d{{1,2}}日)? | \d{{1,2}}月\d{{1,2}}日 ) )
    | (?P<phone> (?<![\w.,/-]) (?: \+\d{{1,3}}[ .-]?(?:\(?\d{{1,4}}\)?[ ./-]?){{2,5}}\d{{2,4}}
          | \(?\d{{3}}\)?[ .-]\d{{3}}[ .-]\d{{4}} | 0\d{{2,4}}[ /-]\d{{4,9}} ) (?![\w-]) )
    | (?P<number> (?<![\w.,#№-]) (?: [-−±~≈<>]?[€$£¥₹]?[ ]?
          (?: \d{{1,3}}(?:[,.'’]\d{{3}})+(?:[.,]\d{{1,6}})? | \d{{1,15}}(?:[.,]\d{{1,9}})? )
          (?:[ ]?{_UNITS})? ) (?![\w]|[.,:/-]\d) )
    | (?P<id> (?<![\w.-]) (?: [#№][ ]?\d{{1,20}}\b
          | v?\d{{1,4}}(?:\.\d{{1,5}}){{2,4}}(?:[-+.][\w.]{{1,20}})?\b
          | [A-Z][A-Z0-9]{{1,30}}(?:_[A-Z0-9]{{1,30}}){{1,6}}\b
          | (?=[\w-]{{0,40}}\d)(?=[\d-]{{0,40}}[^\W\d])
            [A-Za-z0-9]{{1,40}}(?:[_:-][A-Za-z0-9]{{1,40}}){{0,8}} ) (?![\w]) )
    | (?P<cjknumber> \d[\d,.]{{0,15}}[\u3400-\u9fff] )
    | (?P<name> (?<![\w.@/#'’-]) {_CAPITAL}(?:[^\W\d_]|['’&-]){{0,40}}(?![\w-])
          (?:[ ](?:(?:de|da|von|van|der|del|of|al|la|le)[ ])?{_CAPITAL}(?:[^\W\d_]|['’&-]){{1,40}}(?![\w-])){{0,4}} )
    | (?P<honoured> [\u3400-\u9fff\u30a0-\u30ff]{{1,8}}(?:さん|様|氏|先生|女士|小姐) )
    """,
    re.VERBOSE | re.MULTILINE,
)

LABEL = re.compile(r"(?<![\w'’.@-])((?:[^\W\d_][\w'’-]*[ ]){0,3}(?:[^\W\d_][\w'’-]*))[ *]*[:=#]?[ *\"'“]*$")
TIME = re.compile(r"[\d:]+ ?(?:[ap]\.?m\.?|Uhr|o'clock)?(?: [A-Z]{3})?")
ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|er|e|s|x)|\d+-\w+", re.IGNORECASE)
FLAG = re.compile(r"--?[a-zA-Z]|[.~]?/\S|[\w.-]+/\S|\w+=")
RUN = re.compile(r"\b(?:run|ran|running|execute|type|typed|command)(?: is)?:?\s*$", re.IGNORECASE)
GERMAN = re.compile(r"\b(?:der|die|das|und|ist|nicht|ich|ein|eine|mit|auf|für|den|wir|sie)\b")
COMMAND_KEYS = frozenset(("command", "cmd", "script", "shell", "code"))
BREAK = re.compile(r"\.(?=\s|$)|[!?;:,(){}\[\]\"“”|*`=\n。，！？；：、（）「」]")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Programs whose names are words of English, too.
ORDINARY = _words("poetry go make find cat head tail top kill export node sed zip cd flask az ls ps sh tar apt brew uv")
# Where a sentence goes on after a command.
GOES_ON = _words(
    "and then before after so but because when if which that now again first to or und dann for in on please"
)
# What says nothing about the thing that it stands beside.
SMALL = _words(
    "a an the this that these those it its i we you he she they me my our your his her their us them am is are was "
    "were be been do does did have has had will would can could should must may might not no yes of in on at by for "
    "with from to into onto up as and or but so if then than too also just only about around over under between per "
    "each every all any some more most less least very there here now what which who when where how why because while "
    "after before ok okay please thanks hi hello hey der die das und ist ein eine im am zu von mit auf für le la les "
    "un une des de du et est el los las una es y en por para con que se al del"
)
# What has a capital letter without being a name.
STARTERS = SMALL | _words(
    "last next bye lately woohoo mon tues wed thurs fri sat sun hmm take thx dear mr mrs ms "
    "i'm i'd i've i'll it's that's what's let's don't can't we're we've you're you've they're he's she's here's "
    "there's isn't didn't doesn't won't who's how's ask tell call dear thank sure great good nice wow cool well oh "
    "yeah yep nope sorry sounds thats sunday monday tuesday wednesday thursday friday saturday january february march "
    "april june july august september october november december id ids dob est pst utc gmt am pm usd eur note summary "
    "next first second third finally however unfortunately also additionally would let use run see check remember "
    "always never could maybe absolutely definitely congrats congratulations haha lol omg btw fyi english usually "
    "still every since even both many much such another other one two three four five six seven eight nine ten"
)
