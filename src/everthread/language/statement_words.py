"""How preferences and standing instructions are worded, by language: the tables that `language.statements` reads.

A rule is looked for in one sentence of the user's, in any case, with straight apostrophes; the first that is found
decides. `FIRM` ones are meant to stand by their wording ("from now on"), `PLAIN` ones tell something of the user that
lasts ("I live in"), `MILD` ones may ("my flight is"), `LOOSE` ones are often of the moment ("I like it"). A language's
rules are tried only on sentences that have one of its words.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Kind = Literal["preference", "instruction"]
FIRM, PLAIN, MILD, LOOSE = 3, 2, 1, 0


class Rule(NamedTuple):
    kind: Kind
    firmness: int
    pattern: re.Pattern[str]


def _rule(kind: Kind, firmness: int, *wordings: str) -> Rule:
    return Rule(kind, firmness, re.compile("|".join(wordings), re.IGNORECASE))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Where a clause begins, so that what follows may be an imperative. After a bare "and" it is one only in a sentence that
# has no subject before: "be brief and never guess", not "they help me and never complain".
_SUBJECT = r"\b(?:i|i'\w+|me|my|they|they'\w+|he|she|it|it's|we|we'\w+|who|that|which|is|are|was|has)\b"
_BEGIN = (
    r"(?:^|[,;:.!–—(]\s*(?:and |but |so |also )?|\b(?:so|also|then|please|just|ok|okay|yes|no)\s+"
    rf"|^(?:(?!{_SUBJECT}).)*?\b(?:and|but)\s+)"
)


def _begun(*wordings: str) -> str:
    """All of these where a clause begins: that is looked for once, not for each."""
    return f"{_BEGIN}(?:{'|'.join(wordings)})"


_HEALTH = (
    r"(?:allergic|intolerant|vegetarian|vegan|pescatarian|diabetic|co?eliac|lactose|gluten|pregnant|colou?r-?blind|"
    r"deaf|blind|dyslexic|left-handed|right-handed|muslim|jewish|hindu|kosher|halal|teetotal|sober)"
)
# Said of oneself, and true of one value at a time. Of anything else that is "mine" many things may be said.
_VALUES = (
    r"name|surname|address|e-?mail|email|phone|number|birthday|age|budget|password|username|id|job|profession|title|"
    r"employer|company|city|hometown|time ?zone|language|currency|size|height|weight|deadline|diet|limit|code|"
    r"postcode|nationality|tier|iban|account|adresse|telefonnummer|geburtstag|sprache|größe|anniversaire|nom|prénom|"
    r"courriel|langue|nombre|dirección|correo|teléfono|cumpleaños|idioma|presupuesto"
)
_PAST = (
    r"(?!\w*[^\We]ed\b|(?:mind|heard|been|seen|saw|thought|knew|know|had|did|made|got|went|came|gave|took|found|felt|told|said|sent|left|again|"
    r"a|the|give up|ever)\b)"
)

_EVER = r"(?:always|never(?: ever)?|don'?t ever|do not ever)"
_FOR_ALL = r"(?:use|take|choose|pick)\b.{1,60}\bfor (?:everything|anything|all|any|every)\b"
_NOT_ASKED = r"(?!(?:worry|mind|know|think|feel|see|remember|have|you|we|they|i|really|get me wrong)\b)"
# What somebody dislikes in general; what follows these is mostly about what was just said.
_NOT_OF_NOW = r"(?!(?:that|this|these|those|them|him|her|to|how|what|your|the|being|not)\b|it\b(?! when\b| if\b))\w"

_ENGLISH = [
    _rule(
        "instruction",
        FIRM,
        r"\bfrom (?:now|here|today) on\b",
        r"\bgoing forward\b",
        r"\bhenceforth\b",
        r"\bfor future reference\b",
        r"\bin (?:the )?future\b,?\s+(?:please|always|never|only|do|don't|use|keep|make|you)\b",
        rf"^in (?:the )?future,?\s+(?!{_SUBJECT})\w+",
        _begun(
            r"(?:remember|memori[sz]e|note)(?: that| this| to|:| my| i\b| i'm)",
            rf"{_EVER}\s+{_PAST}\w+",
            r"(?:never again|only ever \w+)\b",
            rf"no (?!thank|problem|worries|need|one\b)(?:(?!{_SUBJECT})[\w'-]+ ){{0,6}}?[\w'-]+,? (?:please|ever)\b",
            r"address me\b",
        ),
        r"\b(?:keep|bear) in mind\b",
        r"\bdon'?t (?:ever )?forget\b",
        r"\bfor the record\b",
        rf"\b(?:you|we|should|must|let'?s|let us)\s+{_EVER}\s+{_PAST}\w+",
        r"\bplease,? (?:do not|don'?t|never|always|only|avoid|stop)\b",
        r"\b(?:must not|mustn't)\b",
        r"\b(?:whenever|every time|each time) (?:you\b|(?:i|we)\b[^,]{1,60},(?!\s*(?:i|i'\w+|it|my|we|they|he|she)\b))",
        rf"^(?:(?!{_SUBJECT}).)+?\b(?:whenever|every time|each time)\b",
        r"\bunless I (?:ask|say|tell|want)\b",
        r"\bby default\b",
        r"\bas a (?:general )?rule\b",
        r"\bnext time\b,?\s+(?:please|you|ask|use|do|don't|tell|check|make|just|i)\b",
        r"\bunder no circumstances\b",
        r"\bwhen(?:ever)? I (?:say|write|type|ask)\b",
        r"\bif I (?:don't|do not|say|ask|haven't)\b[^,]{1,60},\s+\w+",
        r"\bI want (?:all|every|each|everything|only|no)\b",
    ),
    _rule(
        "preference",
        FIRM,
        r"\bI(?:'d| would|'ll| will)? (?:\w+ ){0,2}?(?:prefer|favou?r)\b(?! not to say)",
        r"\bmy (?:personal |strong )?preference\b",
        r"\bI(?:'d| would) (?:much )?rather\b",
        r"\bI (?:insist\b|refuse to|tend to|(?:always )?try to avoid)\b",
        r"\bI like [\w' ]{2,60} (?:better|more) than\b",
        r"\bfor me,? it(?:'s| is) always\b",
        rf"\b(?:I(?:'?m| am)|my [\w' ]{{2,24}} is) (?:\w+ ){{0,2}}{_HEALTH}\b",
        r"\b(?:I|he|she|they|we)(?:'ve)? (?:have|has|got) (?:\w+ ){1,4}(?:allergy|intolerance)\b",
        r"\bI (?:can'?t|cannot|don'?t|do not|no longer) (?:eat|drink|stand|have|tolerate|use|fly|drive|work)\b",
        _begun(r"call me (?!(?:back|later|tomorrow|when|at|if|on|in|old|crazy|a)\b)"),
        r"\byou (?:can|may|should) call me\b",
        r"\bI go by\b",
        r"\bit(?:'s| is) (?:very |really )?important (?:to|for) me\b",
        r"\bI(?:'?m| am) trying to (?:avoid|eat|drink|quit|stop|cut)\b",
        r"\bI (?:was|am|'ve been|have been) diagnosed\b",
        r"\bI (?:need|require|use) (?:a )?wheelchair\b",
        r"\bI(?:'?m| am) (?:called|named)\b",
        rf"\bI (?:always|never|usually|only|no longer) {_PAST}(?!want to know)\w+",
    ),
    _rule(
        "preference",
        PLAIN,
        r"\bI (?:live|study|teach) (?:in|at|for|as|near|with)\b",
        r"\bI work\b",
        r"\bI(?:'?m| am) \d{1,3}(?: years old)?\b(?! minutes| km| miles)",
        r"\bI(?:'?m| am) in the [\w ]{2,30} time ?zone\b",
        r"\bI have (?:\w+ ){1,2}(?:kids|children|sons?|daughters?|dogs?|cats?|brothers?|sisters?)\b",
        r"\bI take my\b",
        r"\bI(?:'ve| have) always (?:used|taken|kept|paid|ordered|booked|flown|bought|preferred)\b",
        r"\bwe only\b",
        rf"\b(?:our|the) (?:[\w'-]+ ){{0,2}}?(?:budget|deadline|limit|{_VALUES}) (?:is|are)\b(?= (?:\d|[$€£A-Z]))",
        r"\bI(?:'?m| am) (?:from|based)\b",
        r"\bI was born\b",
        r"\bI(?:'ve| have)? moved to\b",
        r"\bI speak\b",
        r"\bI(?:'?m| am) an? (?!part\b|bit\b|lot\b|little\b|huge\b|big\b|few\b|great\b|total\b|fan\b)\w+",
        rf"\bmy (?:[\w'-]+ ){{0,3}}?(?:{_VALUES})(?: is| are| will be| has changed| =|\s?:)",
        r"\b(?:my|our) (?:favou?rite|preferred|usual|goal|rule|habit|policy|convention)\b[\w ]{0,40} (?:is|are)\b",
    ),
    _rule(
        "instruction",
        PLAIN,
        _begun(
            rf"(?:do not|don'?t) {_NOT_ASKED}\w+",
            r"(?:make sure|ensure|be sure|avoid|only (?:use|answer|reply|write|book|send|show))\b",
            r"(?:answer|reply|respond|write|speak|talk)(?: to me| all \w+)? (?:only )?(?:in|with|like)\b",
            r"keep (?:your|the|all|it|them|answers|replies|things)\b[\w ]{0,30}\b"
            r"(?:short|brief|concise|simple|formal|informal|under|below|private|polite)\b",
            r"use (?:\w+ ){0,2}(?:english|german|french|spanish|units|spelling|tabs|spaces|markdown|tone)\b",
            r"stop \w+ing\b",
            r"stick (?:to|with)\b",
            _FOR_ALL,
        ),
        rf"\bI {_FOR_ALL}",
        r"\bno more \w+",
        r"\bplease,? keep (?!going|trying|in touch|me (?:posted|updated|informed))\w+",
        r"\bI (?:(?:want|need) you to|expect \w+)\b",
        r"\bI'd like you to\b",
    ),
    _rule(
        "preference",
        MILD,
        r"\bmy (?:[\w'.-]+ ){0,4}?[\w'.-]+ (?:is|are|=|has changed to|changed to|will be)\b",
        r"\bmy [\w ]{2,30}:",
        r"\bmy \w+ (?:hates|likes|loves|prefers|needs|can't|cannot|doesn't|does not|won't) \w+",
        r"\bI use (?:an? |the )?(?-i:[A-Z])\w+",
        r"\bI (?:don'?t|do not) want any\b",
        rf"\bI (?:really |absolutely |just )?(?:hate|dislike|detest|(?:don'?t|do not) like|avoid) {_NOT_OF_NOW}",
        rf"\bI(?:'?m| am) (?:really )?not (?:fond of|into|(?:an? )?(?:big |great )?fan of) {_NOT_OF_NOW}",
    ),
    _rule(
        "preference",
        LOOSE,
        r"\bI (?:really |absolutely |truly |just |do )?(?:don'?t |do not )?(?:like|love|enjoy|hate|dislike|adore)\b",
        r"\bI (?:don'?t|do not) want\b",
        r"\bI(?:'?m| am) (?:not )?(?:fond of|into|a fan of|afraid of)\b",
    ),
]
_GERMAN = [
    _rule(
        "instruction",
        FIRM,
        r"\bab (?:jetzt|sofort|heute)\b",
        r"\bkünftig\b",
        r"\bin zukunft\b",
        r"\bvon (?:nun|jetzt) an\b",
        r"\bmerke? dir\b",
        r"\bmerken sie sich\b",
        r"\bdenke?n? (?:sie )?daran\b",
        r"\bver(?:giss|gessen sie) nicht\b",
        r"\bbitte (?:\w+ ){0,6}?(?:nicht|kein\w*|immer|nie|niemals|nur)\b",
        r"\bauf keinen fall\b",
        r"\b(?:sprich|sprechen sie|rede) (?:mich|mit mir)\b",
        r"\b(?:duze?|sieze?)n?(?: sie)? mich\b",
        r"\b(?:antworte|schreibe?|sprich|verwende|nutze|sage?|zeige?)n?(?: sie)? (?:\w+ )?(?:immer|nie|niemals)\b",
        r"^(?:immer|nie|niemals)\b",
    ),
    _rule(
        "preference",
        FIRM,
        r"\bich (?:\w+ ){0,3}?(?:bevorzuge|lieber|hasse|immer|nie|niemals)\b",
        r"\bmir (?:\w+ ){0,4}?lieber\b",
        r"\bich bin (?:\w+ ){0,3}?(?:allergisch|vegetari\w+|vegan\w*|diabetiker\w*)",
        r"\bnenne?(?:n sie)? mich\b",
        r"\bich hei(?:ß|ss)e\b",
        r"\bich (?:esse|trinke|vertrage) (?:\w+ )?(?:kein\w*|nicht)\b",
    ),
    _rule(
        "preference",
        PLAIN,
        r"\bmein[er]? (?:[\w-]+ ){1,4}?(?:ist|sind|lautet|heißt)\b",
        r"\bich (?:wohne|arbeite|lebe|mag|liebe)\b",
    ),
]
_FRENCH = [
    _rule(
        "instruction",
        FIRM,
        r"\bdorénavant\b",
        r"\bdésormais\b",
        r"\bà partir de maintenant\b",
        r"\bà l'avenir\b",
        r"\b(?:souviens-toi|souvenez-vous|rappelle-toi|rappelez-vous|retiens|retenez)\b",
        r"\bn'oublie[sz]? pas\b",
        r"\bs'il (?:te|vous) pla[iî]t,? n(?:e |')",
        r"^n(?:e |')\w+ (?:\w+ ){0,2}?(?:jamais|plus)\b",
        r"^\w+(?:ez|e|s) toujours\b",
        r"\b(?:tutoie|tutoyez|vouvoie|vouvoyez)-moi\b",
    ),
    _rule(
        "preference",
        FIRM,
        r"\bje préfère\b",
        r"\bje (?:ne |n')\w+ (?:pas|jamais|plus)\b",
        r"\bje déteste\b",
        r"\bje suis (?:\w+ )?(?:allergique|végétarien\w*|végane?|intolérante?|diabétique|cœliaque)",
        r"\bappell?e[sz]?-moi\b",
        r"\bje m'appelle\b",
        r"\bje \w+ toujours\b",
    ),
    _rule(
        "preference",
        PLAIN,
        r"\b(?:mon|ma|mes) (?:[\w'-]+ ){1,4}?(?:est|sont|s'appelle)\b",
        r"\bje (?:vis|travaille)\b",
        r"\bj'(?:habite|adore|aime|évite)\b",
    ),
]
_SPANISH = [
    _rule(
        "instruction",
        FIRM,
        r"\ba partir de ahora\b",
        r"\ben adelante\b",
        r"\ben el futuro\b",
        r"\b(?:recuerd[ae]|no olvides?|ten en cuenta|tenga en cuenta)\b",
        r"\bpor favor,? (?:no|nunca|siempre|solo|sólo)\b",
        r"^(?:siempre|nunca)\b",
        r"^no me \w+[ae]s\b",
    ),
    _rule(
        "preference",
        FIRM,
        r"\bprefiero\b",
        r"\bno me gustan?\b",
        r"\bodio\b",
        r"\bno (?:como|bebo|tomo|uso)\b",
        r"\bsoy (?:\w+ )?(?:alérgic[oa]|vegetarian[oa]|vegan[oa]|celíac[oa]|diabétic[oa]|intolerante)",
        r"\bllám[ae]me\b",
        r"\bme llamo\b",
        r"\b(?:siempre|nunca)\b",
    ),
    _rule(
        "preference",
        PLAIN,
        r"\bmis? (?:\w+ ){1,4}?(?:es|son|está|se llaman?)\b",
        r"\bvivo en\b",
        r"\btrabajo (?:en|como|para)\b",
        r"\bme (?:gusta|encanta)n?\b",
    ),
]
CJK = [
    _rule(
        "instruction",
        FIRM,
        r"以后|从现在起|从今以后|今后|记住|请记|别忘|千万",
        r"请(?:不要|别|总是|始终|务必|一直)|(?:不要|别)再|^(?:总是|永远|不要|别|从不)",
        r"请用.{1,8}(?:回答|回复|写)",
        r"(?:短く|簡潔に|丁寧に|語で|語だけで).{0,8}(?:答えて|返事|返答|書いて|話して)",
        r"今後|これから(?:は|も)|以後は?|覚えておいて|忘れないで|ないでください|しないで|やめてください",
        r"(?:必ず|いつも|常に|絶対に?|決して).{0,40}(?:ください|下さい|して|こと)",
    ),
    _rule(
        "preference",
        FIRM,
        r"我(?:更|比较|最|还是)?(?:喜欢|偏好|偏爱|讨厌|不喜欢|不吃|不喝|不要|不想|吃素|是素食|从不|总是|只)",
        r"我对.{1,16}过敏|叫我|我叫|我姓",
        r"(?:の方|のほう)が(?:好き|いい|良い)|が(?:好き|嫌い|苦手)|好みです",
        r"(?:飲み|食べ|使い)ません|アレルギー|ベジタリアン|ヴィーガン|菜食|と呼んで|と申します",
    ),
    _rule(
        "preference",
        PLAIN,
        r"我的.{1,16}(?:是|为|：)|我(?:现在)?(?:住在|在.{1,12}工作|来自)",
        r"(?:私|僕|俺|わたし)の.{1,20}は|に住んで|で働いて",
    ),
]
SPACED = [
    (
        _words(
            "i i'm i'd i've i'll my me always never don't dont not please remember note memorize memorise mind forget "
            "future forward henceforth default rule record stop avoid only answer reply respond write speak talk sure "
            "ensure whenever every each from more he she they we mustn't use keep our next no when if it's im budget "
            "deadline limit circumstances address stick"
        ),
        _ENGLISH,
    ),
    (
        _words(
            "ich mein meine meiner mir mich bitte immer nie niemals künftig zukunft jetzt nun sofort dir sich daran "
            "nicht keinen heute sprich sprechen duze duzen"
        ),
        _GERMAN,
    ),
    (
        _words(
            "je mon ma mes toujours jamais dorénavant désormais maintenant avenir ne moi s'il souviens-toi retiens "
            "souvenez-vous rappelle-toi rappelez-vous appelle-moi appelez-moi retenez j'habite j'adore j'aime j'évite "
            "n'oublie n'oubliez l'avenir tutoie-moi tutoyez-moi vouvoie-moi vouvoyez-moi"
        ),
        _FRENCH,
    ),
    (
        _words(
            "prefiero mi mis me odio siempre nunca soy ahora adelante recuerda recuerde olvides olvide cuenta futuro "
            "favor vivo trabajo llámame llámeme yo como bebo tomo uso"
        ),
        _SPANISH,
    ),
]

# -- what a statement is about -----------------------------------------------------------------------------

_IS = r"(?=\s+(?:is|are|=|will be|has changed|changed|ist|lautet|est|es)\b|\s*[:=])"
ATTRIBUTES = [
    re.compile(rf"\b(?:my|meine?|mon|ma|mi)\s+((?:[\w'-]+\s+){{0,3}}?(?:{_VALUES}))\b{_IS}", re.IGNORECASE),
    re.compile(rf"\bmy\s+((?:favou?rite|preferred|usual)\s+(?:[\w'-]+\s+){{0,2}}?[\w'-]+){_IS}", re.IGNORECASE),
    re.compile(r"我的(地址|电话|名字|姓名|邮箱|生日|预算|号码|职业|城市)(?=是|为|：)"),
    re.compile(r"(?:私|僕|俺|わたし)の(住所|電話番号|名前|誕生日|予算|メールアドレス|職業)(?=は)"),
]
_CALLED = r"\bcall me\b|\bI go by\b|\bnenne?(?:n Sie)? mich\b|\bappell?e[sz]?-moi\b|\bllám[ae]me\b|叫我|と呼んで"
_HOME = (
    r"\bI(?:'ve| have)? (?:now )?(?:live|moved|relocated) (?:in|to)\b|\bich wohne in\b|\bj'habite (?:à|en|au)\b"
    r"|\bvivo en\b|我(?:现在)?住在|に住んで"
)
ONE_AT_A_TIME = [("called", re.compile(_CALLED, re.IGNORECASE)), ("home", re.compile(_HOME, re.IGNORECASE))]

# Words that say how something is meant, not what: "always X" and "never X" are about the same.
EMPTY = _words(
    "a an the this that these those it its i i'm i'd i've i'll me my mine myself we our us you your am is are was were "
    "be been being do does don't didn't doesn't not no nor any some all one ones to of in on at for with by from up as "
    "and or but so if then than too also just only really very much more most quite rather still again ever always "
    "never usually generally normally prefer preferred like love enjoy hate dislike want would could should must can "
    "will please thanks thank ok okay yes yeah sure well now longer anymore instead actually over remember note mind "
    "keep going forward future there here about when what which who way hi hello hey oh "
    "ich mir mich mein meine du dir sie ihr bitte immer nie niemals nicht kein keine lieber gern gerne mag und oder "
    "aber der die das ein eine ist sind bin doch mal ab jetzt auch bevorzuge "
    "je moi mon ma mes toujours jamais ne pas plus préfère aime le la les un une des de du et ou est sont suis "
    "yo mi mis prefiero siempre nunca por favor el los las una es soy gusta y"
)
