"""Turns, through the service and its client."""

from __future__ import annotations

from tests.agent import conftest
from tests.client.suites import through

TOOLS = "its tools are functions, which live in the process that runs the turns"
HEADERS = "headers for the provider are for the process that calls it"
INSIDE = "it looks into the store object itself"
LOCKED = "address and extra_body are set by the operators of a service"
PATCHED = (vars(conftest),)  # whose `Everthread` opens a service, too

speak, model, talk = conftest.speak, conftest.model, conftest.talk

through(
    globals(),
    "agent.test_say",
    "agent.test_live",
    "agent.test_output",
    "agent.test_said_again",
    "agent.test_places",
    "agent.test_records",
    "agent.test_one_at_a_time",
    "agent.test_thinking",
    "agent.test_waiting",
    "agent.test_never_awaited",
    but={
        "test_tools_run_and_the_model_goes_on_with_their_results": TOOLS,
        "test_texts_around_a_tool_call_are_told_apart_in_the_whole": TOOLS,
        "test_several_tools_run_at_once_and_stand_in_the_log_in_the_order_of_their_calls": TOOLS,
        "test_what_goes_wrong_in_a_tool_is_told_to_the_model": TOOLS,
        "test_a_tool_that_takes_too_long_is_given_up": TOOLS,
        "test_a_result_of_20_megabytes_becomes_one_that_can_be_sent": TOOLS,
        "test_a_tool_is_given_the_conversation_it_belongs_to": TOOLS,
        "test_the_window_is_applied_afresh_at_every_model_call": TOOLS,
        "test_a_turn_ends_at_its_limit_of_model_calls": TOOLS,
        "test_a_turn_ends_at_its_limit_of_cost": INSIDE,
        "test_only_what_was_said_after_the_last_tool_is_read": TOOLS,
        "test_a_turn_that_waits_has_no_value_yet": TOOLS,
        "test_fields_of_a_branch_are_in_its_past_requests_and_headers_in_none": TOOLS,
        "test_a_schema_that_was_read_before_a_redaction_and_shaped_after_it_is_not_remembered": TOOLS,
        "test_a_choice_of_tool_is_for_the_first_model_call_alone": TOOLS,
        "test_the_fallback_gets_neither_the_headers_nor_the_fields_of_the_first": TOOLS,
        "test_the_values_of_headers_are_in_no_error_no_record_and_no_repr": HEADERS,
        "test_a_count_takes_headers_as_a_turn_does": HEADERS,
        "test_a_key_in_a_header_is_not_repeated_without_its_scheme_either": HEADERS,
        "test_so_does_the_error_of_a_turn_that_failed_again_or_after_a_tool": TOOLS,
        "test_nor_does_one_of_a_turn_that_still_waits": TOOLS,
        "test_a_past_request_is_built_again_byte_for_byte": TOOLS,
        "test_or_it_says_what_is_no_longer_the_same": TOOLS,
        "test_with_other_tools_it_stays_out_too": TOOLS,
        "test_what_was_settled_is_not_walked_through_again": TOOLS,
        "test_on_a_branch_that_left_before_the_verdict_it_still_waits": TOOLS,
        "test_a_command_of_an_application_that_is_called_approve_is_no_verdict": TOOLS,
        "test_a_store_that_nobody_opens_warns": INSIDE,
        "test_a_branch_takes_lists_and_mappings_as_a_call_does": LOCKED,
        "test_fields_that_are_refused_are_named": LOCKED,
        "test_the_factor_of_a_model_is_learnt_from_what_its_provider_reports": LOCKED,
    },
)
