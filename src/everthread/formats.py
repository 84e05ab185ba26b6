"""Message lists of other systems to events, and back: `await talk.append(*from_openai(messages))`.

For each there is a pair: OpenAI's Chat Completions and Responses, Anthropic's Messages, Gemini's contents, LangChain's
messages. They are faithful: what is read is given back, but for the normalisations that the first paragraph of each
module lists; and they do not repair a history: a request that a provider accepts is what `talk.context` makes.
`events_of` takes one object of an SDK as it is, which is what `talk.append` does with it.
"""

from everthread.providers.anthropic.messages import from_anthropic, to_anthropic
from everthread.providers.google.contents import from_gemini, to_gemini
from everthread.providers.openai.messages import from_openai, to_openai
from everthread.providers.openai.responses.items import from_responses, to_responses
from everthread.transfer.langchain import from_langchain, to_langchain
from everthread.transfer.objects import events_of

__all__ = [
    "events_of",
    "from_anthropic",
    "from_gemini",
    "from_langchain",
    "from_openai",
    "from_responses",
    "to_anthropic",
    "to_gemini",
    "to_langchain",
    "to_openai",
    "to_responses",
]
