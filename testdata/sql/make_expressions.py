#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write expressions.tsv: what DuckDB makes of SQL expressions, one column a row of the table below.

Run it again after adding an expression. Expressions whose meaning differs on purpose (docs/sql.md)
are not here but in src/sql/expression_test.cc, with the values Cairn gives.
"""
import datetime
import decimal
import pathlib
import struct

import duckdb

# The same rows are built in src/sql/expression_test.cc.
ROWS = """
 (1, 7, 2, 1.25, 0.5, 'apple', 'a|b', TIMESTAMP '2020-02-29 10:11:12.345678', DATE '2020-02-29', true),
 (-3, -7, 2, -0.05, -2.5, 'Éclair', '', TIMESTAMP '1969-12-31 23:59:59.999999', DATE '1969-12-31', false),
 (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (2147483647, 9000000000000000000, -3, 99999999.99, 1e18, '  pad  ', 'u1x', TIMESTAMP '2200-01-01 00:00:00', DATE '2000-01-01', NULL),
 (0, 0, 5, 0.00, 0.0, '', '%_', TIMESTAMP '1970-01-01 00:00:00', DATE '1970-01-01', true),
 (10, NULL, 1, 2.50, 2.5, E'line\\nbreak', 'a_b', NULL, DATE '2024-12-30', false),
 (-2147483648, -9000000000000000000, 7, -99999999.99, -1e-7, 'ab', 'AB', TIMESTAMP '2026-07-04 23:00:00.5', NULL, true)
"""

EXPRESSIONS = r"""
a + b
a - b
b * b - 1
i + a
-b
+b
a % b
a % 2 = 0
mod(a, 5)
b % 2.5
c % 0.4
i % 7
a * 0.908
a + 0.5
a - 12.345
c + c
c - 1
c * 1.5 * 1.25
c * CAST(b AS INTEGER)
c / 4
c / (d + 1)
d + a
d - 0.5
d * c
-c
-d
abs(b)
abs(c)
abs(d)
round(c)
round(c, 1)
round(c, 5)
round(c, -1)
round(c, -7)
round(c, -8)
round(c, -9)
round(c, -20)
round(c % 100, -2)
round(CAST(c % 10 AS DECIMAL(3,2)), -1)
round(a, -3)
round(b, -1)
round(d, -1)
round(d)
round(d, 1)
floor(c)
ceil(c)
floor(d)
ceil(d)
ceiling(c)
sqrt(b * b)
power(b, 2)
a = 7
a <> 7
a != b
a < b
a <= 7
a > c
a >= d
c = 1.250
c > 1
i = a
d > 0.25
s = 'apple'
s < 'b'
s >= u
ts < TIMESTAMP '2000-01-01'
ts >= '1970-01-01'
f > DATE '1999-12-31'
f < ts
g = true
g
NOT g
g AND a > 0
g OR a > 0
a > 0 AND b > 0 AND NOT g
a > 0 OR b > 0 OR g IS NULL
g IS NULL
g IS NOT NULL
g IS TRUE
g IS NOT TRUE
g IS FALSE
g IS NOT FALSE
(a > 0) IS NULL
a IS NULL
a IS NOT NULL
a IS DISTINCT FROM b
a IS NOT DISTINCT FROM NULL
a IS NOT DISTINCT FROM 7
s IS DISTINCT FROM 'apple'
a IN (7, -7)
a IN (7, NULL)
a NOT IN (7, -7)
a NOT IN (7, NULL)
b IN (a, 2)
b NOT IN (a, 2)
c IN (1.25, 2.5)
s IN ('apple', 'a|b')
s NOT IN ('apple', '')
d IN (0.5, 2.5)
f IN (DATE '2020-02-29')
i IN (1, 10)
a BETWEEN 0 AND 10
a NOT BETWEEN 0 AND 10
a BETWEEN b AND NULL
c BETWEEN 0 AND 2.5
s BETWEEN 'a' AND 'b'
ts BETWEEN '1960-01-01' AND '2021-01-01'
s LIKE 'ap%'
s LIKE '%e'
s LIKE '%a%'
s LIKE 'a_p%e'
s LIKE 'ab'
s LIKE '%'
s LIKE ''
s LIKE '_____'
s LIKE 'line_break'
s LIKE 'l%k'
s LIKE '_clair'
s NOT LIKE 'a%'
s ILIKE 'APP%'
s ILIKE 'ÉCLAIR'
s NOT ILIKE '%A%'
u LIKE '%|%'
u LIKE 'a!_b' ESCAPE '!'
u LIKE '!%!_' ESCAPE '!'
u LIKE 'u1%'
upper(s)
lower(s)
length(s)
substring(s, 2)
substring(s, 2, 3)
substring(s FROM 1 FOR 1)
substring(s, 0, 2)
substring(s, 100, 2)
substr(s, 3)
left(s, 2)
right(s, 2)
left(s, -1)
right(s, -1)
trim(s)
ltrim(s)
rtrim(s)
trim(BOTH 'a' FROM u)
trim(LEADING 'a' FROM u)
replace(s, 'p', '__')
starts_with(u, 'a')
concat(s, '-', u)
concat(a, s)
s || u
s || a
s || '/' || u || '/' || b
CASE WHEN a >= 100 THEN 'high' WHEN a IS NULL THEN 'none' ELSE 'low' END
CASE WHEN g THEN a ELSE b END
CASE WHEN a > 0 THEN 1 END
CASE a WHEN 7 THEN 'seven' WHEN 0 THEN 'zero' END
CASE WHEN g THEN c ELSE a END
CASE WHEN b <> 0 THEN a % b ELSE -1 END
CASE WHEN s = 'ab' THEN NULL ELSE s END
COALESCE(a, b)
COALESCE(a, b, 0)
COALESCE(NULL, c, 1)
COALESCE(s, 'none')
NULLIF(b, 2)
NULLIF(s, 'apple')
GREATEST(a, b)
LEAST(a, b, 0)
GREATEST(c, 1)
CAST(b AS INTEGER)
CAST(b AS DOUBLE)
CAST(b AS DECIMAL(10,2))
CAST(b AS TEXT)
CAST(c AS BIGINT)
CAST(c AS DECIMAL(12,4))
CAST(c AS DECIMAL(10,1))
CAST(c AS DOUBLE)
CAST(c AS TEXT)
CAST(d AS BIGINT)
CAST(g AS INTEGER)
CAST(b AS BOOLEAN)
CAST(g AS TEXT)
CAST(ts AS TEXT)
CAST(f AS TEXT)
CAST(ts AS DATE)
CAST(f AS TIMESTAMP)
CAST('2020-01-01 01:02:03.5' AS TIMESTAMP)
'2020-01-01'::DATE
' 12 '::BIGINT
'1e3'::DOUBLE
'yes'::BOOLEAN
'1.50'::DECIMAL(10,2)
CAST(CAST(b AS TEXT) AS BIGINT)
CAST(CAST(c AS TEXT) AS DECIMAL(10,2))
CAST(CAST(ts AS TEXT) AS TIMESTAMP)
CAST(CAST(f AS TEXT) AS DATE)
CAST(CAST(g AS TEXT) AS BOOLEAN)
b::DECIMAL(20,3)::TEXT
extract(year FROM ts)
extract(quarter FROM ts)
extract(month FROM ts)
extract(week FROM ts)
extract(day FROM ts)
extract(hour FROM ts)
extract(minute FROM ts)
extract(second FROM ts)
extract(dow FROM ts)
extract(isodow FROM ts)
extract(doy FROM ts)
extract(isoyear FROM ts)
extract(epoch FROM ts)
extract(year FROM f)
extract(dow FROM f)
date_part('month', f)
date_trunc('year', ts)
date_trunc('quarter', ts)
date_trunc('month', ts)
date_trunc('week', ts)
date_trunc('day', ts)
date_trunc('hour', ts)
date_trunc('minute', ts)
date_trunc('second', ts)
ts + INTERVAL '1 day 2 hours'
ts - INTERVAL '90' MINUTE
INTERVAL '1 week' + ts
ts - TIMESTAMP '2020-01-01' > INTERVAL '1 hour'
f + 1
f - 1
f - DATE '2020-01-01'
f + INTERVAL '12 hours'
TRUE AND NULL
FALSE AND NULL
TRUE OR NULL
NOT NULL::BOOLEAN
1 = 1.0
'1' = 1
3000000000 * 2
-5 % 3
5 % -3
.5 + 1.
99999999999999999999 + 1
'it''s'
"""


def text_of(value):
    """Spell a value so that equal values have equal spellings in Python and C++."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return struct.pack(">d", value + 0.0).hex()
    if isinstance(value, decimal.Decimal):
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, datetime.datetime):
        return str((value - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.date):
        return str((value - datetime.date(1970, 1, 1)).days)
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t") + "'"
    return str(value)


def main():
    db = duckdb.connect()
    db.execute("CREATE TABLE t (n INTEGER, i INTEGER, a BIGINT, b BIGINT, c DECIMAL(10,2), d DOUBLE, "
               "s TEXT, u TEXT, ts TIMESTAMP, f DATE, g BOOLEAN)")
    for n, row in enumerate(ROWS.strip().split("\n")):
        db.execute("INSERT INTO t VALUES (%d, %s" % (n, row.strip().rstrip(",")[1:]))
    lines = []
    for expression in filter(None, EXPRESSIONS.split("\n")):
        rows = db.execute(f"SELECT {expression} FROM t ORDER BY n").fetchall()
        lines.append("\t".join([expression] + [text_of(row[0]) for row in rows]) + "\n")
    pathlib.Path(__file__).with_name("expressions.tsv").write_text("".join(lines))
    print(len(lines), "expressions, DuckDB", duckdb.__version__)


if __name__ == "__main__":
    main()
