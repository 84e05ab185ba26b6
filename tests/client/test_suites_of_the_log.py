"""The library's contract, through the service and its client."""

from __future__ import annotations

from tests.client.suites import through

BY_HAND = "it makes a log by hand, with a clock or an engine of its own"
TENANTS = "a key is of one tenant: another is Forbidden, and not another name"

through(
    globals(),
    "contract.test_append",
    "contract.test_blobs",
    "contract.test_branches",
    "contract.test_canvas",
    "contract.test_context",
    "contract.test_conversations",
    "contract.test_metadata",
    "contract.test_moving",
    "contract.test_not_by_hand",
    "contract.test_own_ids",
    "contract.test_past",
    "contract.test_question",
    "contract.test_reading",
    "contract.test_recall",
    "contract.test_sessions",
    but={
        "test_a_clock_that_runs_backwards_puts_no_event_before_another": BY_HAND,
        "test_the_newest_conversation_is_the_one_begun_last_whatever_the_clock_says": BY_HAND,
        "test_sessions_end_by_idle_gap_and_know_their_sums": BY_HAND,
        "test_the_message_that_finds_the_session_over_is_kept": BY_HAND,
        "test_a_clock_that_ran_back_does_not_refuse_the_newest_time": BY_HAND,
        "test_a_reader_sees_whole_turns_whatever_is_written_between_its_questions": BY_HAND,
        "test_a_check_finds_nothing_wrong_with_a_log_that_grows_meanwhile": BY_HAND,
        "test_kinds_times_and_sessions_are_asked_of_every_hit": BY_HAND,
        "test_the_store_is_asked_for_it_only_where_the_window_has_no_user_message": BY_HAND,
        "test_an_unknown_id_begins_a_conversation_which_it_finds_from_then_on": BY_HAND,
        "test_whatever_the_application_chooses_by_itself": "its strategy is a function",
        "test_a_program_keeps_settings_of_its_own_with_it": "a service refuses them; it has metadata for that",
        "test_another_user_or_tenant_sees_nothing": TENANTS,
        "test_the_same_user_of_another_tenant_is_another_user": TENANTS,
        "test_another_users_conversation_of_the_same_id_is_another": TENANTS,
    },
)
