"""Which Redis clients are told they talk to."""

REDIS_VERSION = "7.2.0"
