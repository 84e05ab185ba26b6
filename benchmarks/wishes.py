"""How users word what they want to hold beyond the moment: preferences and standing instructions, a wording a line.

Written down before it was looked at which of them are recognised. What may well be meant for the moment ("Use … instead
of …") was taken out again. Of what has one value at a time each is there once, so that none takes another's place.
"""

WISHES = """\
I prefer {} to {}.
I'd prefer {} over {} if there is a choice.
I would rather have {} than {}.
I generally prefer {} when there is no {}.
Always start with {} before {}.
Always ask me before you touch the {} or the {}.
Never use {} together with {}.
Never ever send {} to the {}.
Please always check {} against {}.
Please never show {} next to {}.
Please don't put {} near {}.
Don't bring up {} when we talk about {}.
Do not order {} without {}.
Avoid {} wherever there is {}.
From now on write {} instead of {}.
From here on, {} goes before {}.
Going forward, treat {} as {}.
In future, leave {} out of the {}.
By default take {} rather than {}.
Remember that {} comes from {}.
Keep in mind that {} and {} do not go together.
Don't forget that I keep {} in the {}.
Make sure {} is never mixed with {}.
Whenever you mention {}, add {}.
Every time you list {}, sort by {}.
When I say {}, I mean {}.
If I ask for {}, give me {}.
My favourite {} is {}.
My {} is {}.
My preferred {} is {}.
My usual {} is {}.
My deadline for {} is the day of the {}.
I'm allergic to {} and {}.
My daughter is allergic to {} and {}.
I can't stand {} with {}.
I hate it when {} touches {}.
I don't eat {} or {}.
I don't like {} with {}.
I never touch {} after {}.
I always take {} with my {}.
I usually have {} before {}.
I only drink {} with {}.
I no longer use {} for {}.
I use {} for everything with {}.
I work in a {} and {} shop.
We only ship {} in {}.
Our rule is: no {} in the {}.
It is important to me that {} stays with {}.
Stick to {} for anything about {}.
Stop suggesting {} for {}.
No {} in the {}, please.
You should never swap {} for {}.
You must always weigh {} before {}.
I need you to keep {} away from {}.
I want everything about {} sorted by {}.
Under no circumstances mix {} and {}.
Let's always put {} after {}.
For me it's always {} and {}.
I insist on {} with {}.
I am not a fan of {} with {}.
As a rule, {} goes with {}.
Leave {} out whenever {} is in.
Skip {} unless I ask for {}.
Ich bevorzuge {} statt {}.
Ich möchte lieber {} als {}.
Bitte immer {} vor {} nennen.
Bitte verwende nie {} mit {}.
Ab jetzt bitte {} statt {}.
Ich vertrage kein {} und kein {}.
Merk dir, dass {} zu {} gehört.
Schreib mir nie wieder über {} und {}.
Je préfère {} à {}.
Je ne mange jamais {} avec {}.
N'utilise jamais {} avec {}.
Utilise toujours {} avec {}.
Mon plat préféré est {} au {}.
À partir de maintenant, {} avant {}.
Prefiero {} en lugar de {}.
Nunca pongas {} con {}.
Siempre usa {} con {}.
No me gusta {} con {}.
A partir de ahora, {} antes de {}.
我更喜欢{}而不是{}。
以后请先写{}再写{}。
请不要把{}和{}放在一起。
我对{}和{}过敏。
永远不要提到{}和{}。
やっぱり{}より{}の方が好きです。
いつも{}の前に{}を書いてください。
絶対に{}と{}を混ぜないでください。
私の好きな色は{}と{}です。
我的密码提示是{}和{}。
I like {} better than {}.
I much prefer {} with {}.
Given the choice I prefer {} over {}.
My preference is {}, then {}.
Whatever happens, never mix {} with {}.
Always, always double-check {} against {}.
You should always quote {} in {}.
Never again {} with {}.
Please only use {} for {}.
Only ever send {} with {}.
Just so you know, I'm intolerant to {} and {}.
My partner can't eat {} or {}.
My wife's favourite is {} with {}.
My working hours are from {} to {}.
I'm a vegetarian, so no {} and no {}.
Please keep {} and {} apart.
Please remember: {} before {}.
Note that {} must not touch {}.
For future reference, {} sits beside {}.
Henceforth {} means {}.
Each time we talk about {}, mention {}.
I don't want any {} in my {}.
I refuse to have {} near {}.
I try to avoid {} and {}.
I've always used {} for {}.
I tend to go for {} over {}.
I can't have {} with {}.
Don't ever pair {} with {}.
Don't use {} unless there is {}.
Write all dates like {}-{}.
Answer in {} style with {}.
Keep your answers short about {} and {}.
I expect {} to come with {}.
Ich mag {} lieber als {}.
Verwende immer {} mit {}.
Ich esse nie {} mit {}.
Mein Hund heißt {} {}.
Je suis allergique à {} et {}.
Réponds toujours avec {} et {}.
Siempre prefiero {} a {}.
Soy alérgico a {} y {}.
Mi perro se llama {} {}.
我不喜欢{}和{}。
我的最爱是{}和{}。
正直、{}と{}が嫌いです。
I prefer my {} without {}.
I like {} more than {}.
I'd much rather see {} than {}.
Never put {} on the {}.
Always include {} and {}.
Please always spell {} with {}.
Please never round {} to {}.
Don't translate {} into {}.
Remember my {} is for {}.
From today on, {} before {}.
By default, show {} and {}.
Always use {} for {} unless I say otherwise.
I'm vegan, so {} instead of {}.
I'm a {} engineer at {}.
I don't drink {} or {}.
I can't eat {} with {}.
I never work with {} on {}.
I only fly with {} and {}.
I always book {} with {}.
I hate {} with {}.
I avoid {} near {}.
We never ship {} with {}.
We always pay {} in {}.
You must not touch {} or {}.
Make sure to add {} to {}.
Bitte niemals {} mit {} mischen.
Ich trinke immer {} mit {}.
Je déteste {} avec {}.
Prefiero {} sin {}.
No como {} ni {}.
Recuerda que {} va con {}.
我从不吃{}和{}。
请总是用{}和{}回答。
今後は{}と{}でお願いします。
My name is {} {}.
My address is 12 {} Road, {}.
My shoe size is 43 in {} and {}.
Mon plat de fête est {} au {}.
""".splitlines()
