"""Children, through the service and its client."""

from __future__ import annotations

from tests.client.suites import through

TOOLS = "its tools are functions, which live in the process that runs the turns"

through(
    globals(),
    "contract.test_children",
    but={
        "test_it_has_its_own_agent_model_settings_and_tools": TOOLS,
        "test_an_outcome_says_how_it_ended": TOOLS,
        "test_it_is_ended_when_its_time_is_up": TOOLS,
        "test_it_is_stopped_and_says_so": TOOLS,
        "test_stopping_the_parent_leaves_children_unless_asked": TOOLS,
        "test_one_that_waits_for_approval_goes_on_when_it_is_given": TOOLS,
        "test_closing_the_store_ends_it_and_says_so": TOOLS,
        "test_several_run_side_by_side": TOOLS,
        "test_no_more_run_at_once_than_may": TOOLS,
        "test_the_outcome_stands_where_the_child_was_begun": TOOLS,
        "test_an_erased_conversation_takes_its_children_along": TOOLS,
    },
)
