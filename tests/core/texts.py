"""Texts of many kinds, to count tokens by: ten languages, and what agents and programs write."""

from __future__ import annotations

import base64
import json

ENGLISH = (
    "We moved the meeting to Thursday at half past nine, because the room on the third floor is being painted. "
    "Please bring last quarter's figures and the list of open questions; I've already asked Marta whether she'd "
    "present the forecast. If anybody can't come, they'll get the notes the same evening. It isn't urgent, but "
    "don't forget that the supplier wants an answer by Friday, and that we promised them one in writing.\n"
)
GERMAN = (
    "Wir haben die Besprechung auf Donnerstag um halb zehn verschoben, weil der Raum im dritten Stock gerade "
    "gestrichen wird. Bitte bringen Sie die Quartalszahlen und die Liste der offenen Fragen mit; ich habe Frau "
    "Großmüller schon gebeten, die Umsatzentwicklung vorzustellen. Wer nicht kommen kann, erhält noch am selben "
    "Abend das Protokoll. Der Lieferant erwartet unsere Rückmeldung zur Haftpflichtversicherung bis Freitag.\n"
)
FRENCH = (
    "Nous avons déplacé la réunion à jeudi neuf heures et demie, car la salle du troisième étage est en train "
    "d'être repeinte. Merci d'apporter les chiffres du dernier trimestre et la liste des questions en suspens ; "
    "j'ai déjà demandé à Éloïse de présenter les prévisions. Ceux qui ne peuvent pas venir recevront le compte "
    "rendu le soir même. Le fournisseur attend, lui, une réponse écrite avant vendredi.\n"
)
SPANISH = (
    "Hemos cambiado la reunión al jueves a las nueve y media, porque están pintando la sala del tercer piso. "
    "Traigan, por favor, las cifras del último trimestre y la lista de preguntas pendientes; ya le pedí a Begoña "
    "que presentara las previsiones. ¿Y quien no pueda venir? Recibirá el acta esa misma noche. ¡No olviden que "
    "el proveedor espera una respuesta por escrito antes del viernes!\n"
)
RUSSIAN = (
    "Мы перенесли совещание на четверг, на половину десятого, потому что комнату на третьем этаже сейчас красят. "
    "Пожалуйста, возьмите с собой показатели за прошлый квартал и список открытых вопросов; я уже попросил Марину "
    "рассказать о прогнозе. Кто не сможет прийти, получит протокол в тот же вечер. Поставщик ждёт от нас "
    "письменного ответа до пятницы, и мы ему его обещали.\n"
)
ARABIC = (
    "نقلنا الاجتماع إلى يوم الخميس في الساعة التاسعة والنصف لأن القاعة في الطابق الثالث تُطلى حاليًا. "
    "يرجى إحضار أرقام الربع الأخير وقائمة الأسئلة المفتوحة، وقد طلبتُ من مريم أن تعرض التوقعات. "
    "ومن لا يستطيع الحضور فسيصله المحضر في المساء نفسه. "
    "لا تنسوا أن المورّد ينتظر منا جوابًا مكتوبًا قبل يوم الجمعة.\n"
)
HINDI = (
    "हमने बैठक गुरुवार को साढ़े नौ बजे कर दी है, क्योंकि तीसरी मंज़िल के कमरे में रंगाई चल रही है। "
    "कृपया पिछली तिमाही के आँकड़े और खुले सवालों की सूची साथ लाएँ; मैंने मीरा से पूर्वानुमान बताने को कह दिया है। "
    "जो नहीं आ सकते, उन्हें उसी शाम विवरण मिल जाएगा। "
    "यह मत भूलिए कि आपूर्तिकर्ता शुक्रवार तक लिखित उत्तर चाहता है।\n"
)
CHINESE = (
    "我们把会议改到了星期四上午九点半，因为三楼的会议室正在粉刷。请带上上个季度的数据和尚未解决的问题清单；"
    "我已经请小美介绍一下预测情况。不能来的人当天晚上会收到会议记录。这件事不算紧急，但别忘了供应商希望在"
    "星期五之前得到书面答复，而且我们已经答应过他们了。\n"
)
JAPANESE = (
    "三階の部屋が塗装中のため、会議を木曜日の午前九時半に変更しました。前四半期の数字と未解決の質問のリストを"
    "お持ちください。予測についてはマルタさんに説明をお願いしてあります。来られない方には、その日の夜に議事録を"
    "お送りします。急ぎではありませんが、取引先が金曜日までに書面での回答を求めていることを忘れないでください。\n"
)
KOREAN = (
    "삼 층 회의실을 칠하고 있어서 회의를 목요일 오전 아홉 시 반으로 옮겼습니다. 지난 분기 수치와 아직 풀리지 않은 "
    "질문 목록을 가져와 주세요. 예측은 지영 씨에게 발표해 달라고 이미 부탁해 두었습니다. 오지 못하는 분은 그날 "
    "저녁에 회의록을 받게 됩니다. 급한 일은 아니지만 거래처가 금요일까지 서면 답변을 원한다는 것을 잊지 마세요.\n"
)

LANGUAGES = {
    "English": ENGLISH,
    "German": GERMAN,
    "French": FRENCH,
    "Spanish": SPANISH,
    "Russian": RUSSIAN,
    "Arabic": ARABIC,
    "Hindi": HINDI,
    "Chinese": CHINESE,
    "Japanese": JAPANESE,
    "Korean": KOREAN,
}

CODE = '''\
class Ledger:
    """Keeps what was paid, newest first."""

    def __init__(self, *, currency: str = "EUR") -> None:
        self._entries: list[tuple[int, Decimal]] = []
        self.currency = currency

    def pay(self, amount: Decimal, at: int) -> None:
        if amount <= 0:
            raise ValueError(f"{amount} is not an amount")
        self._entries.insert(0, (at, amount))

    async def total(self, since: int = 0) -> Decimal:
        return sum((amount for at, amount in self._entries if at >= since), start=Decimal("0.00"))


function debounce(run, wait = 250) {
  let timer = null;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run.apply(this, given), wait);
  };
}

SELECT branch, seq, sum(size) OVER (PARTITION BY branch ORDER BY seq) AS before
  FROM events WHERE conversation = $1 AND seq > $2 ORDER BY seq DESC LIMIT 200;
'''
_ROWS = [
    {
        "id": f"res_{number:05d}",
        "passenger": {"first_name": "Ana", "last_name": "Souza", "dob": f"19{number + 60}-04-{number + 10}"},
        "flights": [{"flight_number": f"HAT{number * 37:03d}", "date": "2026-05-17", "price": 141.5 + number}],
        "cabin": "basic_economy",
        "insurance": number % 2 == 0,
        "notes": None,
    }
    for number in range(4)
]
JSON = json.dumps(_ROWS)
INDENTED_JSON = json.dumps(_ROWS, indent=2)
LOG = "".join(
    f"2026-05-17T09:{minute:02d}:41.{minute * 131 % 1000:03d}Z {level} [worker-{minute % 4}] "
    f"http.request id=7f3a{minute:04x}c9 method=GET path=/v1/items/{minute * 7919}?page={minute} "
    f"status={200 + minute % 3 * 100} duration_ms={minute * 3.7:.2f} ip=10.0.{minute}.{minute * 3 % 255}\n"
    for minute, level in enumerate(["INFO", "INFO", "WARN", "DEBUG", "INFO", "ERROR", "INFO", "INFO"])
)
EMOJI = (
    "Done ✅ see you there 🎉🎉🎉 👍🏽 👩‍👩‍👧‍👦 👨🏿‍🚀 🏳️‍🌈 🇩🇪🇯🇵🇧🇷 1️⃣2️⃣3️⃣ ❤️‍🔥 "
    "so tired 😴😴 but happy 🥹 ☕️ → 🚲 → 🏠 🧑🏻‍🤝‍🧑🏿 🐈‍⬛ 🫱🏼‍🫲🏾 ok 🆗 ♻️ 🀄️ 🫨\n"
)
BASE64 = base64.b64encode(bytes(number * 167 % 251 for number in range(900))).decode()
WHITESPACE = "a\n\n\n  b\t\t\tc \r\n \r\n      d\u00a0\u2003e\u3000 f        \n        g\n\t\n \n" + " " * 97 + "h   "
MIXED = (
    "Das Meeting mit 田中さん ist um 15:30 в пятницу — mañana? Нет, 다음 주에! الاجتماع في room №42, ça va?\n"
    "naïve café Ελλάδα Ἀθῆναι עִבְרִית ไทยไม่มีเว้นวรรค Tiếng Việt çğıöşü İstanbul ǅ ﬁ ſ ½ Ⅷ ٣٤٥ x²\n"
)
CHAT = (
    "User: hey can u check my order #88412? it's been 2 weeks...\n"
    "Assistant: I'm sorry about that! Order #88412 left our warehouse on May 3 and is with the carrier; it should "
    "arrive by Tuesday. Would you like me to open an inquiry, or shall we wait?\n"
    "User: wait till tue, then refund pls. thx\n"
    "Assistant: Understood: I'll check on Tuesday and refund the $49.90 if it hasn't arrived.\n"
)
MARKDOWN = (
    "## Findings\n\n- **Latency** fell from `412 ms` to `87 ms` (−79 %)\n- *Memory* is unchanged\n\n"
    "| step | before | after |\n| --- | ---: | ---: |\n| parse | 120 | 31 |\n| write | 292 | 56 |\n\n"
    "1. Merge [the change](https://example.org/pull/1204#discussion_r99).\n2. Watch it for a day.\n\n> Nothing else.\n"
)

OTHERS = {
    "code": CODE,
    "JSON": JSON,
    "indented JSON": INDENTED_JSON,
    "log": LOG,
    "emoji": EMOJI,
    "base64": BASE64,
    "whitespace": WHITESPACE,
    "mixed scripts": MIXED,
    "chat": CHAT,
    "Markdown": MARKDOWN,
}
ALL = LANGUAGES | OTHERS
