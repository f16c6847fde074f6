"""What a manager shows and reports about itself.

- Serving: `serving_thread` (with an event loop of its own), `serving_addresses`, `certificate_rotation`.
- Pages: `page_server`, `page_routes` (what each page answers), `page_connections`,
  `page_authorization` and `page_origins` (who may connect and see what), `loop_calls` (into the manager's
  event loop), `health_checks`, `debug_pages`, `debug_actions`, `debug_state`.
- Metrics: `metric_families` (names and labels), `metrics` (counting) with `histograms`, `metric_levels` (read
  at a scrape).
- Traces: `tracing`. Logs: `log_setup`, `log_writer`. A held event loop: `watchdog`. Status: `manager_status`.
"""

__all__: list[str] = []
