"""The table of faults: what may go wrong, what is expected then, and the tests that check it."""
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """`checks`: tests by file and name; all parameters of a test without `[`, else those that begin so."""

    group: str
    fault: str
    expected: str
    checks: tuple[str, ...]


def _rows(group: str, folder: str, *rows: tuple[str, str, str]) -> list[Fault]:
    """Rows of a group: fault, expected, checks as "file::test file::test"; a name without file is of the file before."""
    found = []
    for fault, expected, checks in rows:
        file, nodes = "", []
        for check in checks.split():
            own, _, name = check.rpartition("::")
            file = own or file
            nodes.append(f"tests/{folder}{file}.py::{name}" if not file.startswith("/") else f"tests{file}.py::{name}")
        found.append(Fault(group, fault, expected, tuple(nodes)))
    return found


TABLE: Sequence[Fault] = (
    *_rows(
        "Sessions and daemons",
        "integration/session/",
        ("the LTTng daemon is not installed, fails, hangs, or is missing its control library", "one line; the program runs untraced with its own status",
         "test_session::test_no_daemon_installed test_daemon_that_fails test_daemon_that_hangs test_command::test_no_lttng test_no_control_library"),
        ("the daemon fails while the program runs", "the program goes on; one line says since when nothing is recorded", "test_command::test_daemon_that_fails_while_the_program_runs"),
        ("LTTng takes a process only at the second attempt", "the process is recorded from its first call", "test_command::test_a_process_that_lttng_takes_only_the_second_time_is_recorded_from_its_begin"),
        ("another daemon runs for root", "it is used and not ended; a user records next to it", "test_session::test_root_uses_the_daemon_that_runs_and_leaves_it test_user_beside_roots_daemon test_root_records_its_own_processes_only"),
        ("several runs at the same time, or one after the other", "each has its own events, exactly", "test_session::test_two_runs_at_once test_one_run_after_the_other"),
        ("occa_prof is killed or ended during a recording", "no process, socket or buffer stays; the run can be read", "test_session::test_killed_owner_leaves_nothing test_command::test_killed_leaves_a_readable_run_and_nothing_else"),
        ("the process that watches the daemon is killed", "no process stays", "test_session::test_killed_keeper_leaves_no_process"),
        ("everything is killed at the same time", "the next report or run reads what the buffers hold and removes them", "test_command::test_all_killed_at_once test_session::test_what_a_massacre_left_is_swept_by_the_next_run"),
        ("/dev/shm is small or full", "smaller buffers, or no recording; one line says so", "test_session::test_shared_memory_too_small_is_told test_small_buffers_are_told test_every_event_and_nothing_left"),
    ),
    *_rows(
        "Programs",
        "integration/hazards/",
        ("exit, _exit, SIGSEGV, abort, kill -9", "the status is the program's; all calls until then are counted", "test_hazards::test_the_way_a_program_ends_passes_through_and_its_work_is_there /integration/session/test_command::test_status_of_a_signal test_exit_status"),
        ("fork, 50 compilers, 64 threads, an API unloaded and loaded again", "counts are exact", "test_hazards::test_a_forked_child_is_a_process_of_the_run test_fifty_compilers_are_not_traced_and_not_hindered test_64_threads test_an_api_that_is_unloaded_and_loaded_again"),
        ("a child of fork while another thread holds a lock", "the child does not wait for it", "test_guards::test_nothing_is_made_under_the_compilers_lock"),
        ("work in exit handlers and static destructors; work that never ends", "it is recorded, or counted as lost", "/integration/opencl/test_late::test_work_of_exit_handlers_and_destructors test_work_that_never_ends_is_counted"),
        ("a program built with AddressSanitizer", "it starts and is recorded", "test_hazards::test_programs_with_the_address_sanitizer_of_gcc"),
        ("closed standard streams; binary streams; inherited signals and descriptors", "as without occa_prof", "/integration/session/test_command::test_closed_streams test_streams_and_arguments_are_untouched test_signals_and_descriptors_are_as_without_us"),
        ("program not found, not executable, a script without interpreter line", "the status of a shell, one line", "/integration/session/test_command::test_program_not_found test_program_not_executable test_script_without_interpreter_line"),
        ("a process that outlives its parent", "one line says what is missing", "/integration/session/test_command::test_program_that_outlives_its_parent_is_told test_a_child_of_fork_that_goes_on_is_told_though_it_recorded_nothing"),
        ("an API that is loaded, linked statically or switched off, and not seen", "the end of the run names it", "test_unseen::test_a_library_that_was_loaded_is_named test_tools_that_are_kept_out_are_the_reason test_a_library_inside_the_program"),
        ("exceptions through calls, failing calls", "they arrive as without occa_prof and are counted as failed", "/integration/opencl/test_device_work::test_failed_calls_are_failed_and_nothing_after_them_is_wrong test_a_terminated_command_carries_its_error"),
        ("a signal handler that calls traced APIs while stacks are sampled", "nothing breaks", "/integration/stack_samples/test_stack_samples::test_nothing_breaks_whatever_a_signal_interrupts test_calls_of_the_system_go_on"),
    ),
    *_rows(
        "Signals",
        "integration/session/",
        ("SIGINT and SIGTERM to occa_prof; Ctrl-C in a terminal", "the program gets each once, the report follows", "test_command::test_signals_are_forwarded_and_the_report_comes test_interrupt_from_a_terminal_comes_once /integration/hazards/test_hazards::test_a_signal_to_occa_prof_is_forwarded_and_the_report_still_comes"),
        ("Ctrl-Z and fg", "the program stops and goes on", "test_command::test_stop_and_continue"),
        ("SIGTERM during the analysis", "the run is kept, temporary files are removed", "test_command::test_ended_while_it_analyses"),
        ("SIGINT, SIGTERM and SIGHUP at chosen moments of the start of a recording", "the status says the signal; no process, socket or buffer stays", "/faults/test_moments::test_signals_while_a_recording_starts"),
        ("signals to every subcommand at chosen moments", "the status says the signal, quiet, nothing left", "/unit/test_ending::test_signals test_native_code_is_ended /integration/reports/test_interrupted::test_before_the_tables"),
        ("signals that the caller ignores (nohup)", "they stay ignored", "/unit/test_ending::test_ignored_signals_stay_ignored"),
        ("a query that never ends", "SIGINT, SIGTERM and SIGHUP end it; memory is bounded", "/unit/test_query_rows::test_it_ends_when_it_is_asked_to test_memory"),
    ),
    *_rows(
        "Disk",
        "integration/session/",
        ("full while the program is recorded", "the program is untouched; the first events can be read; one line names the disk", "test_disk::test_full_while_the_program_is_recorded"),
        ("filled by the program; full at the report", "run.json says how the program ended; the report comes", "test_disk::test_filled_by_the_program test_full_at_the_report"),
        ("full with --stream", "the program is untouched; what was kept can be read", "/faults/test_stream::test_full_disk"),
        ("no inode is free", "the program runs, one line names the disk", "/faults/test_folders::test_no_inode_is_free"),
        ("run.json cannot be written at the end", "one line says so", "test_disk::test_run_json_cannot_be_written_when_the_session_of_a_shell_ends"),
        ("output that cannot be written (/dev/full), readers that go", "one line, status 2; 141", "/unit/test_ending::test_output_that_cannot_be_written test_closed_streams /unit/test_query_rows::test_the_reader_goes"),
        ("a signal or an error while an export is written", "the file is whole or not there", "/unit/test_ending::test_an_export_is_whole_or_not_there"),
    ),
    *_rows(
        "Folders",
        "faults/",
        ("locks are refused (NFS and Lustre without locks)", "recording, report and timeline work", "test_folders::test_a_file_system_without_a_feature[locks"),
        ("shared mappings, links, modes or fallocate are refused (NFS, FUSE, CIFS)", "recording, report and timeline work, or one line", "test_folders::test_a_file_system_without_a_feature"),
        ("open files that are removed stay under another name (NFS)", "recording and report work", "test_folders::test_removed_files_that_stay"),
        ("root may not write (root_squash)", "one line before the program runs, or the program untraced", "test_folders::test_root_that_may_not_write"),
        ("-o names a file, a folder of another user, a folder without the right to write, a name of 300 characters", "one line before the program runs", "/integration/session/test_command::test_a_folder_that_cannot_be_written_to test_run_folder_exists test_unwritable_output /integration/security/test_run_folder::test_a_name_that_is_too_long_is_told_before_the_program_runs"),
    ),
    *_rows(
        "Limits",
        "faults/",
        ("ulimit -v, -n too low for tracing", "the program runs as without occa_prof; one line", "/integration/session/test_command::test_limits_too_low_for_tracing_are_one_line"),
        ("ulimit -f (size of files)", "the program's status and output; what fits can be read", "test_limits::test_size_of_files"),
        ("ulimit -u (number of processes)", "the program's status and output", "test_limits::test_number_of_processes"),
        ("ulimit -v during the analysis", "one line, status 2, or the report", "test_limits::test_memory_of_the_analysis"),
        ("a control group with little memory", "the program is untouched", "test_limits::test_memory_of_a_control_group"),
        ("a control group with few processes", "the program is untouched", "test_limits::test_processes_of_a_control_group"),
        ("perf_event_open, membarrier, memfd_create, pidfd_open or ptrace are denied (containers)", "all is recorded; --sample-stacks works", "test_limits::test_system_calls_that_are_denied"),
    ),
    *_rows(
        "--stream",
        "integration/session/",
        ("the worker is slow, or everything is killed", "nothing is lost; the run can be read", "test_stream::test_nothing_is_lost"),
        ("the worker is killed", "the program goes on; nothing is lost", "/faults/test_stream::test_killed_worker"),
        ("the program aborts, or is killed", "its status; all calls until then", "/faults/test_stream::test_program_that_ends_itself test_program_that_is_killed"),
        ("the limit of the disk is reached", "calls are counted, the report says so", "test_stream::test_what_there_is_no_room_for_is_counted"),
        ("two nodes", "one run", "/integration/ranks/test_nodes::test_stream_on_two_nodes"),
    ),
    *_rows(
        "MPI jobs (Open MPI and MPICH)",
        "integration/ranks/",
        ("ranks that abort, are killed, exit early", "the launcher's status; the report names the ranks", "test_jobs::test_ranks_that_end_badly"),
        ("the process that records a node is killed", "the job goes on", "test_jobs::test_the_nodes_process_is_killed"),
        ("a node that cannot be reached", "one line; the other nodes are a run", "test_nodes::test_a_node_that_is_cut_off"),
        ("ranks that start late, some ranks only, two jobs at the same time", "one run per job", "test_jobs::test_ranks_that_start_apart test_a_rank_that_comes_after_the_report test_some_ranks_only test_two_jobs_at_once"),
        ("16 ranks on few cores; /dev/shm of 64 MB; root and user", "counts are exact", "test_jobs::test_many_ranks_on_few_cores test_one_report"),
        ("a rank of MPICH is killed while the job is streamed", "the launcher's status; the run can be read", "/faults/test_stream::test_rank_that_is_killed"),
        ("the run folder exists", "one line for the job", "test_jobs::test_a_folder_that_is_there_already"),
    ),
    *_rows(
        "Damaged runs and traces",
        "integration/columns/",
        ("streams cut, overwritten, empty; bits turned in any file", "what can be read is delivered, the damage is named", "test_damaged::test_truncated_stream test_everything_but_the_metadata_gone test_a_packet_overwritten test_flipped_bits"),
        ("metadata cut or empty; packets without declared events", "one line", "test_damaged::test_metadata_damaged test_empty::test_events_that_nothing_declares test_packets_without_events"),
        ("layouts that no tracer writes, with random damage", "both decoders agree, or decline", "test_layouts::test_random_layouts test_random_damage test_declined"),
        ("run.json with wrong types, or no JSON", "one line names the key", "/integration/security/test_run_folder::test_wrong_types_are_told_in_one_line test_what_is_no_object"),
        ("tables that are damaged, missing or of another version", "one line says what to remove", "/unit/test_bad_input::test_damaged_tables /integration/security/test_run_folder::test_tables_json_is_checked test_what_stream_kept_is_checked"),
        ("files that changed since the recording", "report --verify names them", "/unit/test_checksums::test_damage test_a_damaged_list"),
        ("runs that ended before their first event", "an empty report, or one line", "/unit/test_unfinished::test_a_process_that_ended_before_its_first_event test_killed_before_anything_was_recorded"),
        ("recordings of nsys, rocprofv3 and PyTorch that are damaged", "one line, no run folder", "/unit/test_import_nsys::test_bad_files_are_one_line /unit/test_import_rocpd::test_bad_files_are_one_line /unit/test_import_chrome::test_bad_files_are_one_line"),
        ("inputs of all kinds that are changed at random (a sample of `tools/faults fuzz`)", "status 0 or 2, one line, bounded memory and time", "/faults/test_fuzz::test_changed_inputs test_inputs_that_failed_once"),
    ),
    *_rows(
        "Security",
        "integration/security/",
        ("folders of other users in /tmp; links in their place", "they are not touched", "test_leftovers::test_folders_of_others_are_not_swept test_a_link_in_the_place_of_a_leftover_is_not_followed test_no_name_is_a_pattern test_own_leftovers_that_lead_to_a_foreign_run test_leftovers_of_jobs_of_others_are_not_swept"),
        ("a run folder of a stranger: paths, ids, links, pipes in it", "nothing outside of it is written or removed", "test_leftovers::test_the_id_of_a_run_is_no_path test_buffers_that_are_not_the_callers_are_left test_a_run_with_links_is_not_written_to test_run_folder::test_nothing_is_written_through_links_in_a_run test_a_pipe_in_the_place_of_run_json_is_not_waited_for test_a_result_replaces_a_link_and_does_not_follow_it test_a_run_of_another_user_is_only_read"),
        ("a stranger listens at our socket, or connects to it", "the peer is refused", "test_sockets::test_start_and_stop_do_not_believe_a_stranger test_ranks_do_not_meet_where_a_stranger_waits test_a_stranger_is_not_taken_for_a_rank test_a_program_does_not_register_with_a_stranger test_a_stranger_cannot_add_processes_to_roots_run"),
        ("a switch of a stranger", "it is not mapped and not written", "test_sockets::test_a_strangers_switch_is_not_mapped test_run_folder::test_the_place_of_a_switch_is_not_trusted"),
        ("texts that would steer a terminal", "they are printed as text", "test_run_folder::test_texts_of_run_json_cannot_steer_a_terminal"),
        ("modes of what is made", "readable by the owner only", "test_run_folder::test_an_empty_folder_becomes_its_owners_only test_tables_are_their_owners_only"),
    ),
)  # fmt: skip
