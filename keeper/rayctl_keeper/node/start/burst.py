"""Settings of Ray for clusters of many nodes, whose workers all register with the one GCS when a job begins.

They are those of NVIDIA NeMo-RL's ray.sub (github.com/NVIDIA-NeMo/RL, 7ea279a of August 2026, "GCS burst-tolerance tuning"), whose reasons are there; Ray's
defaults are in src/ray/common/ray_config_def.h. Left out is what takes something from users: its timeline (enable_timeline), workers kept for reuse
(num_workers_soft_limit), and how soon a dead node is noticed (health_check_period_ms), which job.restarts waits for."""

import os

MANY = 32  # nodes

SETTINGS = {
    # Longer than a burst takes; by default 60 s, but 5 s to connect.
    "RAY_worker_register_timeout_seconds": 120,
    "RAY_gcs_rpc_server_connect_timeout_s": 120,
    "RAY_gcs_rpc_server_reconnect_timeout_s": 120,
    "RAY_gcs_server_request_timeout_seconds": 120,
    # What nodes and workers send all the time, by default 3 to 10 times as often.
    "RAY_raylet_report_resources_period_milliseconds": 500,
    "RAY_task_events_report_interval_ms": 5000,
    "RAY_grpc_keepalive_time_ms": 60000,
    "RAY_grpc_keepalive_timeout_ms": 60000,
    "RAY_ray_syncer_message_refresh_interval_ms": 10000,
    "RAY_core_worker_internal_heartbeat_ms": 5000,
    "RAY_event_stats": "false",
}


def settings(count, cpus):
    """The environment of a node on which the job has so many CPUs, in a cluster of so many nodes."""
    if count < MANY:
        return {}
    threads = max(cpus, (os.cpu_count() or 1) // 4, 1)  # Ray's own choice is a quarter of the machine's
    found = dict(SETTINGS, RAY_gcs_server_rpc_server_thread_num=threads, RAY_gcs_server_rpc_client_thread_num=threads,
                 RAY_num_server_call_thread=max(threads // 2, 1), RAY_gcs_max_active_rpcs_per_handler=threads * 200)
    return {name: str(value) for name, value in found.items()}
