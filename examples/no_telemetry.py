"""Replaces the module that creates your device, for builds without telemetry."""


class Device:
    """Accepts every call; records and sends nothing."""

    consent = "denied"

    def __init__(self, *args: object, **settings: object) -> None:
        pass

    def add(self, *args: object, **settings: object) -> None:
        """Nothing."""

    set = choose = report = preview = start = add

    def refresh_consent(self) -> str:
        """What is in force."""
        return self.consent

    def set_consent(self, choice: str) -> bool:
        """Whether the choice holds: only `denied` does."""
        return choice == "denied"

    def flush(self, timeout: float = 0.0) -> int:
        """No report is accepted."""
        return 0

    def pause(self) -> bool:
        """True: it is done."""
        return True

    resume = forget = close = save = pause

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *exception: object) -> None:
        return None
