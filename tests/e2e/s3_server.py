# SPDX-License-Identifier: Apache-2.0
"""A real S3 server on loopback (versitygw over a directory), stopped by its process id."""
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

ACCESS_KEY, SECRET_KEY, BUCKET = "tester", "not-a-secret", "bucket"
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class S3Server:

    def __init__(self):
        program = os.environ.get("CAIRN_S3_SERVER", str(ROOT / ".cache/bin/versitygw"))
        if program == "none":
            raise unittest.SkipTest("no S3 server on this machine")
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cairn-s3-"))
        (self.dir / BUCKET).mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            [program, "--quiet", "--keep-alive", "--access", ACCESS_KEY, "--secret", SECRET_KEY,
             "--port", f"127.0.0.1:{self.port}", "posix", self.dir],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)
        self.stop()
        raise AssertionError("the S3 server did not start")

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir, True)

    def environment(self) -> dict[str, str]:
        """What every S3 client reads."""
        return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}
