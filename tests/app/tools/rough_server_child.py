"""An MCP server of a few lines, without the SDK, for what well-behaved servers do not do.

Usage: rough_server_child.py HOW [FILE]. Tools are named after what they do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HOW = sys.argv[1]
FILE = Path(sys.argv[2]) if len(sys.argv) > 2 else None
NAMES = ("echo", "hang", "die", "flood", "lines", "nonsense", "odd", "long", "picture", "where")


def write(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def listed() -> list[dict[str, Any]]:
    schema: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
    if HOW == "choosing":
        schema["properties"]["text"] = {"enum": ["hello", "goodbye"]}
        schema |= {"required": ["text"], "additionalProperties": False}
    changed = FILE is not None and HOW == "changing" and FILE.exists()
    about = "Does something else now." if changed else "Does what its name says."
    return [{"name": name, "description": about, "inputSchema": schema} for name in NAMES]


def call(name: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    text = str(arguments.get("text", ""))
    match name:
        case "hang":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            assert FILE is not None
            FILE.write_text(f"{os.getpid()} {child.pid}")
            time.sleep(600)
        case "die":
            sys.stderr.write("Out of coffee.\n")
            sys.stderr.flush()
            os._exit(3)
        case "flood":
            while True:
                os.write(1, b"z" * 65536)
        case "lines":
            note = {"jsonrpc": "2.0", "method": "notifications/message"}
            line = json.dumps(note | {"params": {"level": "info", "data": "x" * 400}})
            while True:
                os.write(1, (line + "\n").encode() * 100)
        case "nonsense":
            os.write(1, b"{]\nHello\n\xff\xfe\n[1]\n{}\n")
        case "odd":
            text = "a\x1b[2Jb\x07c\u202ed\r\ne"
        case "long":
            text = "x" * 400_000
        case "picture":
            return [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]
        case "where":
            names = ("SECRET", "GIVEN", "PATH")
            text = json.dumps({each: os.environ.get(each) for each in names} | {"argv": sys.argv})
    return [{"type": "text", "text": text}]


def main() -> None:
    if HOW == "silent":
        time.sleep(600)
    if HOW == "broken":
        sys.stderr.write("There is no token.\n")
        sys.exit(1)
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        match asked["method"]:
            case "initialize":
                version = asked["params"]["protocolVersion"]
                about = {"name": "rough", "version": "1"}
                answer["result"] = {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": about,
                }
            case "tools/list":
                answer["result"] = {"tools": listed()}
            case "tools/call" if HOW == "wrong":
                answer["result"] = {"content": "no list", "isError": 7}
            case "tools/call":
                told = asked["params"]
                found = call(told["name"], told.get("arguments") or {})
                answer["result"] = {"content": found}
            case _:
                answer["error"] = {"code": -32601, "message": "Method not found"}
        write(answer)


main()
