"""Two sub-agents look things up side by side while the conversation goes on; then the model delegates by itself."""

import asyncio

from everthread import Agent, Everthread, delegate_tool
from everthread.testing.scripted import call, script


async def main() -> None:
    script("boss", "Let me see.", [call("delegate", {"task": "Add it up.", "agent": "clerk", "wait": True})], "Twelve.")
    script("scout", "Seven apples.", "Five pears.")
    script("clerk", "Seven and five are twelve.")
    async with Everthread.open("sqlite:///sub_agents.db", tools=[delegate_tool(agents=["clerk"])]) as et:
        boss = Agent(name="boss", model="scripted:boss", tools=("delegate",))
        for agent in (boss, Agent(name="scout", model="scripted:scout"), Agent(name="clerk", model="scripted:clerk")):
            await et.agents.save("default", agent)
        talk = await et.begin(user="ana", agent="boss")

        tasks = ("Count the apples.", "Count the pears.")
        children = [await talk.delegate(task, agent="scout", calls=3, seconds=60) for task in tasks]
        print(await talk.say("What is in the larder?"))  # meanwhile
        for child in children:
            outcome = await child
            print(f"{outcome.name} ({outcome.state}): {outcome.result}")

        print(await talk.say("How many are there in all?"))
        for one in await talk.children():
            print(one.name, one.agent, one.state, one.calls, "model call")
        spent = await talk.spent()
        print("model calls in all:", spent.calls if spent else 0)


asyncio.run(main())
