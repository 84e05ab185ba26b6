"""Loops of an application's own, through the service and its client."""

from __future__ import annotations

from tests.agent import conftest
from tests.client.suites import through

LEARNS = "the service does not learn from calls that others made"
STRATEGY = "its strategy is a function"
TOOLS = "its tools are functions, which live in the process that runs the turns"
LOCKED = "extra_body is set by the operators of a service"
PATCHED = (vars(conftest),)  # whose `Everthread` opens a service, too

speak, model, talk = conftest.speak, conftest.model, conftest.talk

through(
    globals(),
    "agent.test_own_loops",
    but={
        "test_recorded_usage_teaches_the_factor": LEARNS,
        "test_the_same_is_given_for_every_call_of_a_turn": TOOLS,
        "test_a_strategy_of_ones_own_works_in_say_as_in_context": STRATEGY,
        "test_what_it_chose_is_built_again_with_it_and_without_it_the_rebuild_says_so": TOOLS,
        "test_a_tool_call_that_was_approved_goes_on_with_the_strategy_that_is_given_again": TOOLS,
        "test_what_was_given_for_a_call_alone_is_given_again": LOCKED,
    },
)
