# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/embedding.md, run as a reader would, and killed as production would."""
import datetime
import json
import pathlib
import random
import re
import subprocess
import unittest

from harness import (CAIRN, LONG, EndToEndTest, committed_files, decided, fresh_seed,
                     kill_after_checkpoint)

BIN = pathlib.Path(CAIRN).resolve().parent
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KILLS = 60 if LONG else 8
# A job may come to its end before; on a busy machine it would not for long.
MOST_KILLS = 40 if LONG else 10


def example(name: str) -> pathlib.Path:
    return BIN / f"example_{name}"


class SessionCounterTest(EndToEndTest):

    def test_counts_every_click_once_over_restarts_and_growing_input(self):
        rng = random.Random(fresh_seed())
        clicks, now = [], 0
        for _ in range(20_000):
            now += rng.choice([1, 5, 60, 900])
            clicks.append((f"user{rng.randrange(50)}", now))
        file = self.dir / "clicks.csv"
        file.write_text("")
        for part in range(4):
            with open(file, "a") as out:
                for user, at in clicks[part * 5000:(part + 1) * 5000]:
                    out.write(f"{user},{at}\n")
            # Twice: the second run finds nothing new and changes nothing.
            for _ in range(2):
                done = subprocess.run([example("session_counter"), file, self.dir / "state"],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                got = {line.split()[0]: (int(line.split()[1]), int(line.split()[3]))
                       for line in done.stdout.splitlines()}
                self.assertEqual(got, self.expected(clicks[:(part + 1) * 5000]))

    @staticmethod
    def expected(clicks):
        last, totals = {}, {}
        for user, at in clicks:
            sessions, count = totals.get(user, (0, 0))
            new = user not in last or at - last[user] > 1800
            totals[user] = (sessions + new, count + 1)
            last[user] = at
        return totals


class EventLoopTest(EndToEndTest):

    def test_state_and_offsets_agree_after_every_kill(self):
        rng = random.Random(fresh_seed())
        place = self.dir / "state"
        resumed_before = [0, 0]
        progressed = 0
        for _ in range(KILLS):
            process = subprocess.Popen([example("event_loop"), place, "1000000000000", "100"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            out = process.stdout.readline() + process.stdout.readline()  # both have resumed
            killed = kill_after_checkpoint(process, place, decided(place), rng.uniform(0, 0.3))
            rest, err = process.communicate()
            out += rest
            self.assertTrue(killed, err)
            for line in out.splitlines():
                match = re.match(r"partition (\d) resumes at (\d+) from checkpoint (\d+)", line)
                partition, offset = int(match[1]), int(match[2])
                self.assertGreaterEqual(offset, resumed_before[partition])
                progressed += offset > resumed_before[partition]
                resumed_before[partition] = offset
        self.assertGreaterEqual(progressed, KILLS - 1, "the kills came before any checkpoint")

        # The last run went on after it had resumed: one without events tells how far it came.
        def run(events: int) -> list[int]:
            done = subprocess.run([example("event_loop"), place, str(events), "100"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.endswith("done\n"), done.stdout)
            return [int(at) for at in re.findall(r"resumes at (\d+) ", done.stdout)]

        end = max(run(0)) + 100_000
        run(end)
        self.assertEqual(run(end), [end, end])

    def test_the_tools_read_what_it_saved(self):
        place = self.dir / "state"
        subprocess.run([example("event_loop"), place, "5000"], check=True, capture_output=True)
        listed = subprocess.run([CAIRN, "state", "ls", place], capture_output=True, text=True)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn("sums", listed.stdout)
        verified = subprocess.run([CAIRN, "checkpoint", "verify", place], capture_output=True,
                                  text=True)
        self.assertEqual(verified.returncode, 0, verified.stderr)
        shown = subprocess.run([CAIRN, "checkpoint", "show", place], capture_output=True, text=True)
        self.assertIn("text:5000", shown.stdout)


class RateLimiterTest(EndToEndTest):

    def test_lets_through_what_a_window_allows_and_forgets_idle_clients(self):
        rng = random.Random(fresh_seed())
        now, requests = 0, []
        for _ in range(20_000):
            now += rng.choice([0, 1, 5, 20])
            requests.append((now, f"client{rng.randrange(200) if now < 60_000 else 0}"))
        requests.append((now + 5000, "client0"))
        file = self.dir / "requests.csv"
        file.write_text("")
        for part in range(3):  # killed between any two of them, it would go on the same
            with open(file, "a") as out:
                out.writelines(f"{at},{client}\n" for at, client
                               in requests[part * 7000:(part + 1) * 7000])
            done = subprocess.run([example("rate_limiter"), file, self.dir / "state", "3", "1000"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        windows, allowed = {}, 0
        for at, client in requests:
            begun, count = windows.get(client, (at, 0))
            if at >= begun + 1000:
                begun, count = at, 0
            windows[client] = (begun, count + 1)
            allowed += count < 3
        self.assertEqual(done.stdout.splitlines(),
                         [f"allowed {allowed}", f"refused {len(requests) - allowed}", "clients 1"])


class FeatureStoreTest(EndToEndTest):

    def test_features_of_ranges_agree_over_restarts(self):
        rng = random.Random(fresh_seed())
        payments = [(f"user{rng.randrange(20)}", rng.randrange(10_000), rng.randrange(1, 100))
                    for _ in range(20_000)]
        file = self.dir / "payments.csv"
        for part in range(2):
            with open(file, "a") as out:
                out.writelines(f"{user},{at},{amount}\n" for user, at, amount
                               in payments[part * 10_000:(part + 1) * 10_000])
            questions = [("user3", 1000, 2000), ("user19", 0, 10_000), ("nobody", 0, 10_000)]
            done = subprocess.run(
                [example("feature_store"), file, self.dir / "state",
                 *(str(part) for question in questions for part in question)],
                capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            expected = []
            for user, begin, end in questions:
                sums = {}
                for who, at, amount in payments[:(part + 1) * 10_000]:
                    if who == user and begin <= at < end:
                        sums[at] = sums.get(at, 0) + amount
                expected.append(f"{user} {len(sums)} payments, {sum(sums.values())} in all, "
                                f"{max(sums.values(), default=0)} the largest")
            self.assertEqual(done.stdout.splitlines(), expected)


class CustomOperatorTest(EndToEndTest):

    def purchases(self, count: int, seed: int):
        rng = random.Random(seed)
        rows = [(rng.randrange(200), rng.randrange(1000)) for _ in range(count)]
        with open(self.dir / "purchases.ndjson", "w") as out:
            out.writelines(f'{{"user_id": {user}, "price": {price}}}\n' for user, price in rows)
        last, expected = {}, []
        for user, price in rows:
            length = last[user][1] + 1 if user in last and price > last[user][0] else 1
            last[user] = (price, length)
            if length >= 3:
                expected.append((user, length, price))
        return expected

    def streaks(self):
        found = []
        for file in committed_files(self.dir / "streaks"):
            for line in file.read_text().splitlines():
                row = json.loads(line)
                found.append((row["user_id"], row["streak"], row["price"]))
        return sorted(found)

    def run_job(self, *arguments):
        return subprocess.Popen(
            [example("custom_operator"), "run", ROOT / "examples/embed/streaks.sql", *arguments],
            cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_rows_are_published_once_though_the_job_is_killed_and_rescaled(self):
        seed = fresh_seed()
        rng = random.Random(seed)
        expected = self.purchases(8_000_000 if LONG else 3_000_000, seed)
        kills = 0
        place = self.dir / "streaks.cairn"
        for round_ in range(MOST_KILLS + 1):
            process = self.run_job("--parallelism", str(round_ % 3 + 1), "--interval", "100ms")
            if round_ < MOST_KILLS and kill_after_checkpoint(process, place, decided(place),
                                                             rng.uniform(0, 0.05)):
                process.communicate()
                kills += 1
                continue
            _, err = process.communicate()
            self.assertEqual(process.returncode, 0, err)
            break
        self.assertGreater(kills, 0, "the job came to its end before it was killed")
        self.assertEqual(self.streaks(), sorted(expected))

    def test_its_state_is_seen_by_the_tools_with_typed_keys(self):
        self.purchases(1000, 1)
        process = self.run_job()
        _, err = process.communicate()
        self.assertEqual(process.returncode, 0, err)
        listed = subprocess.run([CAIRN, "state", "ls", self.dir / "streaks.cairn"],
                                capture_output=True, text=True)
        self.assertIn("streak/streaks/0", listed.stdout, listed.stderr)
        self.assertIn("user_id", listed.stdout)

    def test_a_program_without_the_operator_says_what_is_missing(self):
        self.purchases(10, 1)
        done = subprocess.run([CAIRN, "run", ROOT / "examples/embed/streaks.sql"], cwd=self.dir,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn('no operator "streaks"', done.stderr)


class SessionWindowsTest(EndToEndTest):

    GAP_US, DELAY_US = 60_000_000, 10_000_000

    def clicks(self, count: int, rng: random.Random):
        """Clicks of users who come and go, in the order of time but for up to 10 s."""
        start = datetime.datetime(2026, 1, 1)
        rows = []
        for i in range(count):
            at_us = i * 2_000 + rng.randrange(self.DELAY_US)
            burst = at_us // 90_000_000
            rows.append((burst * 7919 % 50 * 40 + rng.randrange(40), at_us))
        with open(self.dir / "clicks.ndjson", "w") as out:
            seconds = {}
            for user, at_us in rows:
                second, us = divmod(at_us, 1_000_000)
                text = seconds.get(second)
                if text is None:
                    text = seconds[second] = str(start + datetime.timedelta(seconds=second))
                out.write(f'{{"user_id":{user},"clicked":"{text}.{us:06d}"}}\n')
        return rows

    def expected(self, rows):
        sessions = []
        last = {}
        for user, at_us in sorted(rows):
            found = last.get(user)
            if found is not None and at_us < found[2] + self.GAP_US:
                found[2], found[3] = at_us, found[3] + 1
            else:
                last[user] = [user, at_us, at_us, 1]
                sessions.append(last[user])
        return sorted(map(tuple, sessions))

    def finished(self):
        start = datetime.datetime(2026, 1, 1)
        found = []
        for file in committed_files(self.dir / "sessions"):
            for line in file.read_text().splitlines():
                row = json.loads(line)
                times = [(datetime.datetime.fromisoformat(row[name]) - start)
                         // datetime.timedelta(microseconds=1) for name in ("started", "ended")]
                found.append((row["user_id"], *times, row["clicks"]))
        return sorted(found)

    def test_each_session_is_given_once_though_the_job_is_killed_and_rescaled(self):
        rng = random.Random(fresh_seed())
        expected = self.expected(self.clicks(6_000_000 if LONG else 3_000_000, rng))
        place = self.dir / "sessions.cairn"
        kills = sessions_before_the_end = 0
        for round_ in range(MOST_KILLS + 1):
            process = subprocess.Popen(
                [example("session_windows"), "run", ROOT / "examples/embed/sessions.sql",
                 "--parallelism", str((2, 3, 1)[round_ % 3]), "--interval", "100ms"],
                cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if round_ < MOST_KILLS and kill_after_checkpoint(process, place, decided(place),
                                                             rng.uniform(0, 0.05)):
                process.communicate()
                kills += 1
                sessions_before_the_end = max(sessions_before_the_end, len(self.finished()))
                continue
            _, err = process.communicate()
            self.assertEqual(process.returncode, 0, err)
            break
        self.assertGreaterEqual(kills, 2, "the job came to its end before it was rescaled twice")
        self.assertGreater(sessions_before_the_end, 0, "watermarks closed no session")
        self.assertEqual(self.finished(), expected)


if __name__ == "__main__":
    unittest.main()
