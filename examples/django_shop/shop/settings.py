"""Cache and sessions are in Holdfast, in two of its databases."""

import os

HOLDFAST_URL = os.environ.get("HOLDFAST_URL", "redis://127.0.0.1:6379")  # without a database


def holdfast_cache(database: int) -> dict[str, object]:
    return {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": HOLDFAST_URL,
        "OPTIONS": {"db": database},
    }


# In different databases, because `cache.clear()` empties a database: it must not log out all
# customers.
CACHES = {"default": holdfast_cache(0), "sessions": holdfast_cache(1)}

# Sessions of a cache in memory would need "cached_db" behind it. Holdfast keeps them on disk.
SESSION_ENGINE = "django.contrib.sessions.backends.cache"
SESSION_CACHE_ALIAS = "sessions"

SECRET_KEY = os.environ.get("SECRET_KEY", "for-this-example-only")
DEBUG = True
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = ["django.contrib.sessions"]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates"}]
USE_TZ = True
