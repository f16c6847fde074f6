"""The incident of AIBrix 986, and fleets before AIBrix's fix. No controller imports this."""

__all__: list[str] = []
