"""Contexts: from a branch and its settings to one provider request, and the account of what is in it.

build      the whole way: plan, read, pack, render, check
plan       settings, model, instructions, tools → the room that is left for turns
pack       the turns that were read, and what memory adds (`memory`) → items and their sizes
give_way   what leaves, and in which order, until the items fit the budget
explain    what was sent and what not, why, and what it costs
account    the same in words
"""
