"""Contexts: from a branch and its settings to one provider request, and the account of what is in it.

planning   settings, model, instructions, tools → the room that is left for turns
packing    the turns that were read → items under the budget, by the order in which things give way
building   the whole way: plan, read, pack, render, check
explain    what was sent and what not, why, and what it costs
"""
