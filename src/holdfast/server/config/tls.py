"""TLS contexts, made from the configuration. Errors are raised before the server starts."""

import ssl
from collections.abc import Callable

from holdfast.errors import ConfigError
from holdfast.server.config.config import Config

VERSIONS = {
    "tlsv1": (ssl.TLSVersion.TLSv1, ssl.OP_NO_TLSv1),
    "tlsv1.1": (ssl.TLSVersion.TLSv1_1, ssl.OP_NO_TLSv1_1),
    "tlsv1.2": (ssl.TLSVersion.TLSv1_2, ssl.OP_NO_TLSv1_2),
    "tlsv1.3": (ssl.TLSVersion.TLSv1_3, ssl.OP_NO_TLSv1_3),
}
CLIENTS = {"no": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "yes": ssl.CERT_REQUIRED}


def tls_context(config: Config) -> ssl.SSLContext | None:
    """The context of the listener; None if no `tls-port` is set. Raises ConfigError."""
    if not config.tls_port:
        return None
    if not config.tls_cert_file:
        raise ConfigError("tls-port needs a certificate: set tls-cert-file and tls-key-file")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_up(context, config)
    if context.verify_mode != ssl.CERT_NONE:
        _load_authorities(context, config)
    return context


def tls_to_peers(config: Config) -> ssl.SSLContext:
    """The context for links that this server dials. It has the certificate for clients, and trusts
    the same authorities. It is made anew for each call, because files are renewed. Raises
    ConfigError."""
    has_authorities = bool(config.tls_ca_cert_file or config.tls_ca_cert_dir)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if has_authorities:
        _load_authorities(context, config)
    else:
        context.load_default_certs()
    if config.tls_cert_file:
        _load_certificate(context, config)
    return context


def renew(context: ssl.SSLContext, config: Config) -> None:
    """Apply CONFIG SET: from now on, new connections use the new values, also a renewed
    certificate. If it raises ConfigError, nothing has changed. Authorities stay, because OpenSSL
    cannot remove one."""
    if tls_context(config) is not None:
        _set_up(context, config)
        if context.verify_mode != ssl.CERT_NONE and not context.cert_store_stats()["x509_ca"]:
            _load_authorities(context, config)


def _set_up(context: ssl.SSLContext, config: Config) -> None:
    """Load everything but the authorities. May be called again."""
    _load_certificate(context, config)
    context.verify_mode = CLIENTS[config.tls_auth_clients]
    _set_protocols(context, config.tls_protocols)
    ciphers = config.tls_ciphers or "DEFAULT"
    _try(f"tls-ciphers {ciphers}", lambda: context.set_ciphers(ciphers))
    if config.tls_ciphersuites:
        raise ConfigError("tls-ciphersuites cannot be chosen here: leave it out")
    context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if config.tls_prefer_server_ciphers:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    if config.tls_dh_params_file:
        path = config.path(config.tls_dh_params_file)
        _try(f"tls-dh-params-file {path}", lambda: context.load_dh_params(path))


def _load_certificate(context: ssl.SSLContext, config: Config) -> None:
    certificate = config.path(config.tls_cert_file)
    key = config.path(config.tls_key_file) if config.tls_key_file else certificate
    for name, path in (("tls-cert-file", certificate), ("tls-key-file", key)):
        _check_readable(name, path)

    def load() -> None:
        # The password comes from a function: without one, OpenSSL would ask at the terminal.
        context.load_cert_chain(certificate, key, lambda: config.tls_key_file_pass)

    _try(f"the certificate {certificate} with the key {key}", load)


def _load_authorities(context: ssl.SSLContext, config: Config) -> None:
    """Load the authorities that must have signed the certificates of clients."""
    if not (config.tls_ca_cert_file or config.tls_ca_cert_dir):
        raise ConfigError(
            f"tls-auth-clients {config.tls_auth_clients} needs tls-ca-cert-file or tls-ca-cert-dir"
        )
    file = config.path(config.tls_ca_cert_file) if config.tls_ca_cert_file else None
    folder = config.path(config.tls_ca_cert_dir) if config.tls_ca_cert_dir else None
    if file is not None:
        _check_readable("tls-ca-cert-file", file)
    where = f"the certificates of authorities in {file or folder}"
    _try(where, lambda: context.load_verify_locations(file, folder))


def _set_protocols(context: ssl.SSLContext, wanted: str) -> None:
    names = wanted.lower().split() or ["tlsv1.2", "tlsv1.3"]
    unknown = [name for name in names if name not in VERSIONS]
    if unknown:
        raise ConfigError(f"tls-protocols knows TLSv1, TLSv1.1, TLSv1.2, TLSv1.3, not {unknown[0]}")
    versions = [VERSIONS[name][0] for name in names]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    for name, (_, forbidden) in VERSIONS.items():
        if name in names:
            context.options &= ~forbidden
        else:
            context.options |= forbidden


def _check_readable(name: str, path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {path}: {error.strerror}") from None


def _try(what: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or error
        raise ConfigError(f"TLS cannot use {what}: {reason}") from None
