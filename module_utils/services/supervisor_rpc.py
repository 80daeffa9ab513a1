# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""How to reach supervisord: what its configuration says, and XML-RPC over its socket."""

from __future__ import annotations

import base64
import configparser
import glob
import http.client
import os
import re
import socket
import xml.parsers.expat
import xmlrpc.client
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

from ..pdops_error import PdopsError

# Where Debian's package and supervisord itself look (supervisor 4.3 options.py), as far as they are absolute.
CONFIGS = ("/etc/supervisord.conf", "/etc/supervisor/supervisord.conf")
ANSWER_S = 10.0

NO_FILE, NOT_EXECUTABLE, FAILED, SPAWN_ERROR = 20, 21, 30, 50  # supervisor 4.3 xmlrpc.py Faults
BAD_NAME, ALREADY_STARTED, NOT_RUNNING, SHUTDOWN_STATE = 10, 60, 70, 6


@dataclass(frozen=True)
class Settings:
    """Where supervisord answers: a unix socket or host and port, and how to log in."""

    config: str
    socket_path: Optional[str]
    host: Optional[str]
    port: int
    username: Optional[str] = None
    password: Optional[str] = None

    @property
    def url(self) -> str:
        """As supervisord puts it into SUPERVISOR_SERVER_URL of its processes."""
        return f"unix://{self.socket_path}" if self.socket_path else f"http://{self.host or 'localhost'}:{self.port}"


def read_settings(config: Optional[str]) -> Settings:
    """Read [unix_http_server] or [inet_http_server] of a supervisord.conf, with its [include] files.

    A password that is stored as a hash is taken from [supervisorctl] instead.
    """
    path = config or next((found for found in CONFIGS if os.path.exists(found)), None)
    if path is None:
        raise PdopsError(
            f"no supervisord.conf on this machine ({' and '.join(CONFIGS)} do not exist): "
            "set pd_supervisor_config to the one that runs the instance"
        )
    parser = configparser.RawConfigParser(inline_comment_prefixes=(";", "#"), strict=False)
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
        here = os.path.dirname(os.path.abspath(path))
        for pattern in parser.get("include", "files", fallback="").split():
            for name in sorted(glob.glob(os.path.join(here, _expand(pattern, here)))):
                parser.read(name, encoding="utf-8")
    except OSError as error:
        raise PdopsError(
            f"{path} cannot be read ({error.strerror}): check pd_supervisor_config, or run with become"
        ) from None
    except (configparser.Error, UnicodeDecodeError) as error:
        raise PdopsError(f"{path} is not a supervisord.conf ({str(error).splitlines()[0]})") from None

    def value(section: str, key: str) -> Optional[str]:
        found = parser.get(section, key, fallback="").strip()
        return _expand(found, here) if found else None

    def login(section: str) -> Tuple[Optional[str], Optional[str]]:
        username, password = value(section, "username"), value(section, "password")
        if password is None or password.startswith("{SHA}"):
            username, password = value("supervisorctl", "username") or username, value("supervisorctl", "password")
        return (username, password) if username and password else (None, None)

    socket_path = value("unix_http_server", "file")
    if socket_path is not None:
        return Settings(path, os.path.join(here, socket_path), None, 0, *login("unix_http_server"))
    address = value("inet_http_server", "port")
    if address is not None:
        host, _colon, port = address.rpartition(":")
        if not port.isdigit():
            raise PdopsError(f"{path}: port={address} in [inet_http_server] is not HOST:PORT")
        return Settings(path, None, "" if host == "*" else host, int(port), *login("inet_http_server"))
    raise PdopsError(
        f"{path} has neither [unix_http_server] nor [inet_http_server]: supervisord cannot be asked without one of them"
    )


def _expand(text: str, here: str) -> str:
    """%(here)s, %(host_node_name)s and %(ENV_name)s, as supervisord expands them."""
    known = {"here": here, "host_node_name": os.uname().nodename}

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name.startswith("ENV_"):
            return os.environ.get(name[4:], "")
        return known.get(name, match.group(0))

    return re.sub(r"%\((\w+)\)s", replace, text)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=ANSWER_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(ANSWER_S)
        self.sock.connect(self._path)


class _Transport(xmlrpc.client.Transport):
    def __init__(self, settings: Settings) -> None:
        headers = []
        if settings.username is not None:
            login = f"{settings.username}:{settings.password}".encode()
            headers.append(("Authorization", "Basic " + base64.b64encode(login).decode()))
        super().__init__(headers=headers)
        self._settings = settings

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        if self._settings.socket_path is not None:
            return _UnixConnection(self._settings.socket_path)
        # An empty host is supervisord's word for every address: it is asked on its own machine.
        return http.client.HTTPConnection(self._settings.host or "127.0.0.1", self._settings.port, timeout=ANSWER_S)


class Rpc:
    """Calls of supervisord's XML-RPC interface; faults come as xmlrpc.client.Fault, all else as PdopsError."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._proxy = xmlrpc.client.ServerProxy("http://localhost/RPC2", transport=_Transport(settings))

    def call(self, method: str, *arguments: Any) -> Any:
        where = self.settings.socket_path or f"{self.settings.host or '*'}:{self.settings.port}"
        try:
            return getattr(self._proxy, f"supervisor.{method}")(*arguments)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode == SHUTDOWN_STATE:
                raise PdopsError(f"supervisord at {where} is shutting down: start it again first") from None
            raise
        except xmlrpc.client.ProtocolError as error:
            if error.errcode == 401:
                raise PdopsError(
                    f"supervisord at {where} refuses the login: check username and password in {self.settings.config}"
                ) from None
            raise PdopsError(f"supervisord at {where} answered {error.errcode} {error.errmsg}") from None
        except PermissionError:
            raise PdopsError(
                f"the socket of supervisord, {where}, may not be used by this user: run with become"
            ) from None
        except (FileNotFoundError, ConnectionRefusedError):
            raise PdopsError(
                f"supervisord does not run: nobody answers at {where} (from {self.settings.config}); "
                f"start it with supervisord -c {self.settings.config}"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise PdopsError(f"supervisord at {where} does not answer ({type(error).__name__}: {error})") from None

    def log_text(self, method: str, *arguments: Any) -> str:
        """A call that returns a log; "" when there is none, or when it holds what XML cannot carry."""
        try:
            return str(self.call(method, *arguments))
        except (xmlrpc.client.Fault, xml.parsers.expat.ExpatError, PdopsError):
            return ""

    def names(self) -> List[str]:
        """Every process that supervisord knows, as NAME or GROUP:NAME."""
        found = self.call("getAllProcessInfo")
        return [info["name"] if info["name"] == info["group"] else f"{info['group']}:{info['name']}" for info in found]
