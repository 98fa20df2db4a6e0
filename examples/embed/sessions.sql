-- Run by examples/embed/session_windows.cc: clicks of a user less than a minute apart are a session.
CREATE TABLE click (user_id BIGINT, clicked TIMESTAMP)
  WITH (connector = 'filesystem', path = 'clicks.ndjson', format = 'ndjson', split_bytes = 1000000,
        watermark = 'clicked', watermark_delay = '10s');
CREATE TABLE session (user_id BIGINT, started TIMESTAMP, ended TIMESTAMP, clicks BIGINT)
  WITH (connector = 'operator', operator = 'sessions', input = 'click', key = 'user_id');
CREATE TABLE finished (user_id BIGINT, started TIMESTAMP, ended TIMESTAMP, clicks BIGINT)
  WITH (connector = 'filesystem', path = 'sessions', format = 'ndjson');
INSERT INTO finished SELECT user_id, started, ended, clicks FROM session;
