"""What a manager shows people: the status page, its stream, the life of one object.

- The page: `status_pages` (routes and headers), `page_assets`, and the files in `page/`.
- Its stream: `status_stream` (what one viewer is sent, and when), `status_board` (what all viewers see),
  `controller_rows` (which objects have changed), `object_rows`, `object_glance`, `overview`.
- One object: `object_life` with `life_runs` and `life_secrets`, `ownership`, `write_differences`, and its
  exports `life_html` and `life_trace`.
- Words that all of them share: `object_health`, `why_not_now` with `key_facts`, `shown_values`.
"""

__all__: list[str] = []
