"""Which tests are quick or slow, and how they are shared out among workers that run beside each other (tools/test)."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.support")
SIGNAL_MASK = signal.pthread_sigmask(signal.SIG_BLOCK, ())  # as the tests were started
# nohup and the background jobs of scripts ignore these, and so would every command that a test starts and then signals.
for _number, _default in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _default)
# Folders of integration/ that stay together, because programs, or a cache of compiled kernels, are made for all of a folder.
TOGETHER = {
    "html": "html",
    "timeline": "timeline",
    "occa": "occa",
    "memory": "occa",
    "openmp": "occa",
    "cuda": "cuda",
    "hip": "hip",
}
# These take longest, so they are begun first; Slurm's tests wait most of the time, and others run meanwhile.
LONG = (
    "occa",
    "slurm/test_slurm.py",
    "cuda",
    "hip",
    "session/test_command.py",
    "ranks/test_jobs.py",
    "timeline",
    "unit/test_timeline_tables.py",
)

STARTED_BY_NO_QUICK_TEST = (
    "cc",
    "c++",
    "gcc",
    "g++",
    "clang",
    "clang++",
    "clang-19",
    "clang++-19",
    "nvcc",
    "lttng-sessiond",
)


def group(file: str) -> str:
    """What one worker does; of most files each is one."""
    path = PurePath(file)
    return TOGETHER.get(path.parent.name, "/".join(path.parts[-2:]))


def is_slow(item: pytest.Item) -> bool:
    """Half a minute and more, for what a faster test shows with another build of OCCA, or in parts."""
    name = item.name
    if name.startswith("test_calls_launches_bytes_and_failures["):
        return item.path.parent.name == "occa" and ("clang" in name or "symbolic" in name)
    if item.path.parent.name == "other_tools":
        return True  # it installs packages at the first use
    return item.path.name == "test_tutorials.py" and ("occa" in name or "pyopencl" in name)


# Unit tests of half a second of CPU time and more: they are not quick.
LONG_UNITS = {
    "test_acceptance::test_what_differs_is_named",
    "test_acceptance::test_what_is_not_there",
    "test_advice::test_a_first_collective_that_waits_is_not_slow",
    "test_advice::test_a_rule",
    "test_advice::test_tasks_at_the_end_of_a_region_are_work",
    "test_api::test_queries_only_read",
    "test_api::test_reports_are_those_of_the_command_line",
    "test_api::test_the_examples_of_the_documentation_run",
    "test_asked_tracks::test_command",
    "test_asked_tracks::test_rows_are_slices",
    "test_bad_input::test_an_old_locale",
    "test_bad_input::test_damaged_tables",
    "test_bad_input::test_options_that_cannot_be_understood",
    "test_bad_input::test_queries",
    "test_bad_input::test_runs_without_much",
    "test_bad_input::test_statuses_of_the_command",
    "test_bad_input::test_the_trace_is_gone",
    "test_call_files::test_a_timeline_opens_few_files",
    "test_captured::test_gaps_and_shares_are_of_the_recorded_time",
    "test_captured::test_runs_recorded_in_part_are_compared_by_call",
    "test_cli_of_runs::test_bad_input_is_one_line",
    "test_cli_of_runs::test_compare",
    "test_cli_of_runs::test_export",
    "test_cli_of_runs::test_progress_of_a_timeline",
    "test_cli_of_runs::test_report",
    "test_cli_of_runs::test_tables_fit_the_terminal",
    "test_commands::test_each_command_has_a_hook",
    "test_commands::test_few_hooks_of_commands_are_written_by_hand",
    "test_compare::test_identical_programs_do_not_cry_wolf",
    "test_compare::test_repetitions_tell_what_single_runs_cannot",
    "test_compare::test_what_is_collected",
    "test_critical::test_a_queue_in_order",
    "test_critical::test_the_command",
    "test_digest::test_each_fact_is_a_row_of_its_report",
    "test_digest::test_the_limit_holds_and_what_is_left_out_is_said",
    "test_docs::test_the_pages_of_the_events_are_those_of_the_model",
    "test_efficiency::test_scale",
    "test_efficiency::test_set_imbalance",
    "test_empty_tables::test_as_duckdb_writes_it",
    "test_ending::test_an_export_is_whole_or_not_there",
    "test_ending::test_closed_streams",
    "test_ending::test_output_that_cannot_be_written",
    "test_ending::test_signals",
    "test_ending::test_the_script_of_a_clone",
    "test_export_to_tools::test_extrap_of_several_runs",
    "test_export_to_tools::test_hatchet",
    "test_export_to_tools::test_otf2",
    "test_export_to_tools::test_rocpd_and_back",
    "test_fixed_cost::test_reports_of_nothing_ask_nothing",
    "test_flamegraph::test_self_and_total_time_of_any_nesting",
    "test_flamegraph::test_windows_change_nothing",
    "test_for_ci::test_outputs_are_as_their_schemas_say",
    "test_formats::test_any_names",
    "test_generator::test_an_enumeration_of_many_calls_is_a_number_in_the_trace",
    "test_generator::test_generated_files_are_not_rewritten_when_nothing_changed",
    "test_generator::test_log_levels_choose_what_a_mode_writes",
    "test_guides::test_argparse_stays_in_the_command_line",
    "test_history::test_command",
    "test_html::test_empty_run",
    "test_html::test_hostile_names",
    "test_html::test_numbers_are_the_reports",
    "test_html::test_run_that_recorded_nothing",
    "test_html::test_summary_of_the_run",
    "test_html::test_the_tile_of_the_run_has_what_came_before_the_processes",
    "test_html::test_without_the_library",
    "test_import_chrome::test_kineto",
    "test_import_ctf::test_opencl",
    "test_import_ctf::test_other_commands",
    "test_import_ctf::test_ranks_messages_ranges_and_openmp",
    "test_import_nsys::test_device_work_in_parts",
    "test_import_nsys::test_other_commands",
    "test_import_nsys::test_place",
    "test_import_nsys::test_strange_but_readable",
    "test_import_nsys::test_without_the_systems_sqlite",
    "test_import_rocpd::test_content",
    "test_listing::test_lines_of_text",
    "test_listing::test_the_first_lines_do_not_wait_for_the_last",
    "test_listing::test_windows_change_nothing",
    "test_mcp::test_answers",
    "test_mcp::test_what_is_refused",
    "test_merge::test_merge",
    "test_one_list::test_no_constant_in_c_stands_twice",
    "test_over_time::test_hostile_page",
    "test_over_time::test_page_of_a_large_run",
    "test_overview::test_it_is_first_and_short",
    "test_overview::test_the_overview_of_a_summary_is_whole",
    "test_partial::test_a_simulated_run",
    "test_partial::test_one_balance_of_ranks",
    "test_partial::test_parts_make_the_whole",
    "test_partial::test_simulated_ranks",
    "test_partial::test_the_report_of_very_many_ranks",
    "test_plots::test_busy",
    "test_plots::test_memory",
    "test_prose::test_messages",
    "test_query_rows::test_a_report_of_single_events_comes_in_parts",
    "test_query_rows::test_in_parts_it_is_the_same",
    "test_query_rows::test_memory",
    "test_query_rows::test_reports_one_after_another",
    "test_recipes::test_plots_and_advice",
    "test_reports::test_busy_and_medians",
    "test_reports_of_parts::test_parts_of_ranks",
    "test_reports_of_parts::test_parts_of_threads",
    "test_reports_of_parts::test_what_is_missing_is_said",
    "test_scope::test_a_window_beside_the_run",
    "test_scope::test_a_window_counts_what_begins_in_it",
    "test_scope::test_by_device_and_stream",
    "test_scope::test_by_rank_and_thread",
    "test_scope::test_every_report_in_every_scope",
    "test_scope::test_names",
    "test_scope::test_what_cannot_be_split_says_so",
    "test_scope::test_what_crosses_the_border_is_told",
    "test_scope::test_windows_add_up_to_the_whole",
    "test_shell::test_bash_completes",
    "test_shell::test_files_in_the_run_folder_are_made_again",
    "test_shell::test_the_bar_is_for_terminals_only",
    "test_shell::test_zsh_completes",
    "test_stack_samples::test_perfetto_has_the_samples",
    "test_standard_output::test_the_same_as_in_a_file",
    "test_timeline::test_compressed_is_the_same",
    "test_timeline::test_csv",
    "test_timeline::test_filters",
    "test_timeline::test_json",
    "test_timeline::test_losses_are_visible",
    "test_timeline::test_random_runs",
    "test_timeline::test_read_in_windows",
    "test_timeline::test_runs_can_be_put_together",
    "test_timeline_encoder::test_schema_gives_back_what_was_written",
    "test_timeline_encoder::test_trace_processor_gives_back_what_was_written",
    "test_timeline_path::test_a_part_of_it",
    "test_timeline_path::test_one_process_has_no_arrows",
    "test_timeline_path::test_track_and_arrows",
    "test_timeline_tables::test_busy_share_and_traffic",
    "test_timeline_tables::test_command_of_parts",
    "test_timeline_tables::test_files_of_ranks_have_no_arrows_between_them",
    "test_timeline_tables::test_files_per_rank_are_the_whole",
    "test_timeline_tables::test_files_per_time_are_the_whole",
    "test_timeline_tables::test_hosts_are_on_one_clock",
    "test_timeline_tables::test_memory_in_use",
    "test_timeline_tables::test_names",
    "test_timeline_tables::test_part_of_a_run_is_not_taken_for_the_whole",
    "test_timeline_tables::test_ranges",
    "test_timeline_tables::test_ranks",
    "test_timeline_tables::test_too_many_files",
    "test_timeline_tables::test_warns_of_large_files",
    "test_unfinished::test_nothing_of_an_analysis_is_left_when_it_is_killed_and_made_again",
    "test_windows::test_every_row_is_in_one_window_in_order",
}
NOT_QUICK = ("compiles", "records", "measures")


def is_quick(item: pytest.Item) -> bool:
    """Neither a compiler nor LTTng's daemon, nor long: most unit tests."""
    if item.path.parent.name != "unit" or f"{item.path.stem}::{item.name.partition('[')[0]}" in LONG_UNITS:
        return False
    return not any(mark.name in NOT_QUICK for mark in item.iter_markers())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Which tests are quick, which slow; in a worker: long groups first."""
    for item in items:
        if is_slow(item):
            item.add_marker(pytest.mark.slow)
        elif is_quick(item):
            item.add_marker(pytest.mark.quick)
    if hasattr(config, "workerinput"):
        order = {name: at for at, name in enumerate(LONG)}
        items.sort(key=lambda item: order.get(group(str(item.path)), len(order)))


@functools.cache
def refusing() -> Path:
    """A folder with compilers and daemons that refuse to start."""
    folder = Path(tempfile.mkdtemp(prefix="occatrace-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in STARTED_BY_NO_QUICK_TEST:
        program = folder / name
        program.write_text(
            f"#!/bin/sh\necho 'a quick test starts {name}: pytest.mark.compiles or pytest.mark.records is missing' >&2\nexit 1\n"
        )
        program.chmod(0o755)
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A quick test that starts a compiler or a daemon fails."""
    before = os.environ["PATH"]
    if any(item.iter_markers("quick")):
        os.environ["PATH"] = f"{refusing()}:{before}"
    try:
        return (yield)
    finally:
        os.environ["PATH"] = before


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """By groups, in the order in which they stand."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid.partition("::")[0])

    config.option.loadscopereorder = False
    return ByGroup(config, log)


@pytest.fixture(autouse=True)
def own_signal_mask() -> Iterator[None]:
    """A test that calls a command in this process leaves the signals as they were: a shell that inherits a blocked SIGCHLD
    waits for ever for its children."""
    signal.pthread_sigmask(signal.SIG_SETMASK, SIGNAL_MASK)
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, SIGNAL_MASK)
