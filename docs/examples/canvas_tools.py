"""A model that draws: a chart and a list on the user's canvas, which are still there when it is asked again."""

import asyncio

from everthread import Everthread, GivenSettings, canvas_tools
from everthread.canvas import List
from everthread.testing.scripted import call, script

VISITORS = {"title": "Visitors", "chart": "bar", "labels": ["Mon", "Tue"], "series": [{"values": [412, 577]}]}
PACKING = {"title": "Packing list", "boxes": True, "items": [{"text": "passport"}, {"text": "socks"}]}
UPDATE = {"id": "packing-list", "type": "list", "items": [{"text": "passport", "done": True}, {"text": "socks"}]}


async def main() -> None:
    script(
        "artist",
        [call("canvas_add_chart", VISITORS), call("canvas_add_list", PACKING)],
        "Both are on your canvas.",
        [call("canvas_update_element", UPDATE)],
        "Ticked.",
    )
    settings: GivenSettings = {"model": "scripted:artist", "memory": False}
    async with Everthread.open("sqlite:///canvas.db", settings=settings, tools=canvas_tools()) as et:
        talk = await et.conversation(user="ana")
        print(await talk.say("Show me the visitors, and what I have to pack."))
        print(await talk.say("I have the passport."))
        for element in (await talk.canvas()).elements:
            print(element.id, element.title)
            if isinstance(element, List):
                print([item.text for item in element.items if item.done])


asyncio.run(main())
