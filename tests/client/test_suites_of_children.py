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
        "test_an_erased_conversation_takes_its_children_along": TOOLS,
        "test_one_that_cannot_be_begun_leaves_no_branch": TOOLS,
        "test_one_that_waits_for_approval_is_stopped": TOOLS,
        "test_its_own_children_end_with_it_and_are_told_once": TOOLS,
        "test_so_they_do_when_it_is_done_or_at_its_limit": TOOLS,
        "test_one_that_waits_for_approval_below_ends_with_its_parent": TOOLS,
        "test_a_childs_limits_hold_for_all_that_it_begins": TOOLS,
        "test_so_does_its_price": TOOLS,
        "test_the_outcome_stands_where_the_child_was_begun_and_on_what_went_on_from_there": TOOLS,
        "test_a_fork_is_told_once_and_so_is_one_that_goes_back_to_before_the_outcome": TOOLS,
        "test_they_are_nested_to_a_set_depth": "how deep they may be nested is for the service to say",
    },
)
