# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` and `./dev package` give: found by another project, moved, and run where
nothing else is installed. Long tier: the library is compiled in a tree of its own."""
import os
import pathlib
import shutil
import subprocess
import unittest

from harness import CAIRN, LONG, EndToEndTest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build/package"
FORBIDDEN = ("arrow/", "parquet/", "rocksdb/", "curl/", "nlohmann/", "fmt/")


def run(*command, **options) -> subprocess.CompletedProcess:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited with {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def clean_environment() -> dict[str, str]:
    """Nothing that could lead to the build tree."""
    return {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}


class PublicHeadersTest(EndToEndTest):

    def test_public_headers_name_no_other_library(self):
        for header in sorted((ROOT / "include/cairn").rglob("*.h")):
            for line in header.read_text().splitlines():
                if line.strip().startswith("#") and "include" in line:
                    for prefix in FORBIDDEN:
                        self.assertNotIn(f"<{prefix}", line, header)


@unittest.skipUnless(LONG, "long tier")
class PackageTest(EndToEndTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run(ROOT / "dev", "package", cwd=ROOT)

    def test_another_project_finds_the_moved_installation(self):
        first, prefix = self.dir / "first", self.dir / "moved" / "cairn"
        run("cmake", "--install", BUILD, "--prefix", first)
        prefix.parent.mkdir()
        first.rename(prefix)
        build = self.dir / "build"
        run("cmake", "-S", ROOT / "tests/package", "-B", build, "-G", "Ninja",
            "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={prefix}",
            "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache" if shutil.which("ccache") else "-DX=1")
        run("cmake", "--build", build)
        work = self.dir / "work"
        work.mkdir()
        run(build / "c_program", work, env=clean_environment())
        (work / "clicks.csv").write_text("ann,1\nann,2\nbob,9\n")
        done = run(build / "session_counter", work / "clicks.csv", work / "state",
                   env=clean_environment())
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["ann 1 sessions 2 clicks", "bob 1 sessions 1 clicks"])
        self.assertIn("cairn 0.1.0", run(prefix / "bin/cairn", "--version",
                                         env=clean_environment()).stdout)
        self.assertIn("users", run(prefix / "bin/cairn", "state", "ls", work / "state",
                                   env=clean_environment()).stdout)

    def bare_root(self) -> pathlib.Path:
        """A root of a file system with a C and a C++ library and a shell, and nothing else."""
        root = self.dir / "root"
        if shutil.which("debootstrap"):
            done = subprocess.run(["debootstrap", "--variant=minbase", "--include=libstdc++6",
                                   "bookworm", root], capture_output=True, text=True)
            if done.returncode == 0:
                print("in a debootstrapped root", end=" ")
                return root
            shutil.rmtree(root, ignore_errors=True)
        print("in a root with libc and libstdc++ alone", end=" ")
        (root / "tmp").mkdir(parents=True)
        (root / "proc").mkdir()  # the loader asks it where a program lies ($ORIGIN)
        for name in ["/lib64/ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libstdc++.so.6",
                     "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1",
                     "libresolv.so.2"]:
            source = pathlib.Path(name)
            if not source.is_absolute():
                source = pathlib.Path("/lib/x86_64-linux-gnu") / name
            target = root / source.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(source), target)
        return root

    def try_in(self, root: pathlib.Path, cairn: str):
        (root / "tmp/in.ndjson").write_text('{"k":1}\n{"k":2}\n{"k":1}\n')
        (root / "tmp/job.sql").write_text(
            "CREATE TABLE a (k BIGINT) WITH (connector = 'filesystem', path = '/tmp/in.ndjson', "
            "format = 'ndjson');\n"
            "CREATE TABLE b (k BIGINT, n BIGINT) WITH (connector = 'filesystem', path = '/tmp/out', "
            "format = 'parquet', changelog = true);\n"
            "INSERT INTO b SELECT k, count(*) FROM a GROUP BY k;\n")
        inside = ["unshare", "--mount", "sh", "-c",
                  'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"', root, cairn]
        run(*inside, "run", "/tmp/job.sql", "--checkpoints", "/tmp/place")
        listed = run(*inside, "state", "ls", "/tmp/place")
        self.assertIn("agg", listed.stdout)
        shutil.rmtree(root / "tmp/place")
        shutil.rmtree(root / "tmp/out")

    def test_the_tarball_runs_from_any_folder_of_a_bare_root(self):
        root = self.bare_root()
        (root / "srv").mkdir(exist_ok=True)
        tarball = next((BUILD / "package").glob("cairn-*.tar.gz"))
        run("tar", "-xzf", tarball, "-C", root / "srv")
        name = tarball.name.removesuffix(".tar.gz")
        self.try_in(root, f"/srv/{name}/bin/cairn")

    def test_the_debian_package_runs_in_a_bare_root(self):
        root = self.bare_root()
        package = next((BUILD / "package").glob("*.deb"))
        if (root / "usr/bin/dpkg").exists():
            shutil.copy(package, root / "tmp/cairn.deb")
            run("chroot", root, "dpkg", "-i", "/tmp/cairn.deb")
        else:
            run("dpkg-deb", "-x", package, root)
        self.try_in(root, "/usr/bin/cairn")


if __name__ == "__main__":
    unittest.main()
