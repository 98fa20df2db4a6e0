/* SPDX-License-Identifier: Apache-2.0
 *
 * The C interface, compiled as C: declare, write and read in batches, checkpoint, close, recover,
 * export; and the errors a caller meets. Exits with 1 at the first expectation that fails.
 */
#include "cairn/c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cairn/arrow.h"

static int failures = 0;

#define EXPECT(condition)                                                                     \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "%s:%d: expected %s; last error: %s\n", __FILE__, __LINE__, #condition, \
              cairn_last_error());                                                            \
      ++failures;                                                                             \
    }                                                                                         \
  } while (0)

enum { kRows = 1000 };

static cairn_bytes text(const char* chars) {
  cairn_bytes bytes = {chars, strlen(chars)};
  return bytes;
}

struct service {
  cairn_store* store;
  cairn_partition* partition;
  cairn_table* table;
};

static struct service open_service(const char* uri) {
  struct service s = {NULL, NULL, NULL};
  cairn_options* options = cairn_options_new();
  EXPECT(cairn_options_set(options, "name", "c-test") == CAIRN_OK);
  EXPECT(cairn_options_set(options, "checkpoint.retained", "2") == CAIRN_OK);
  EXPECT(cairn_store_open(uri, options, &s.store) == CAIRN_OK);
  cairn_options_free(options);
  EXPECT(cairn_partition_open(s.store, 0, &s.partition) == CAIRN_OK);
  EXPECT(cairn_table_declare(s.partition, "c", "rows", &s.table) == CAIRN_OK);
  return s;
}

static void count_call(void* context, cairn_code code, const char* message) {
  EXPECT(code == CAIRN_OK);
  EXPECT(strcmp(message, "ok") == 0);
  ++*(int*)context;
}

static void writes_batches_and_checkpoints(const char* uri) {
  static char names[kRows][16];
  static cairn_bytes keys[kRows];
  static cairn_bytes values[kRows];
  struct service s = open_service(uri);
  uint64_t checkpoint = 7;
  size_t done = 0;
  int calls = 0;
  cairn_checkpoint* handle = NULL;
  EXPECT(cairn_partition_recover(s.partition, &checkpoint, NULL) == CAIRN_OK);
  EXPECT(checkpoint == 0);
  for (int i = 0; i < kRows; ++i) {
    snprintf(names[i], sizeof names[i], "key %d", i);
    keys[i] = text(names[i]);
    values[i] = text(names[i] + 4);
  }
  EXPECT(cairn_table_put(s.table, kRows, keys, values, &done) == CAIRN_OK);
  EXPECT(done == kRows);
  EXPECT(cairn_table_erase(s.table, 1, keys, &done) == CAIRN_OK);
  EXPECT(done == 1);
  EXPECT(cairn_table_size(s.table) == kRows - 1);
  EXPECT(cairn_table_get(s.table, 2, keys, values) == CAIRN_OK);
  EXPECT(values[0].data == NULL);
  EXPECT(values[1].size == 1 && memcmp(values[1].data, "1", 1) == 0);

  EXPECT(cairn_partition_checkpoint(s.partition, text("offset 1000"), &handle) == CAIRN_OK);
  EXPECT(!cairn_checkpoint_done(handle));
  EXPECT(cairn_checkpoint_result(handle) == CAIRN_UNAVAILABLE);
  cairn_checkpoint_on_done(handle, count_call, &calls);
  EXPECT(cairn_store_poll(s.store) == 1);
  EXPECT(calls == 1);
  EXPECT(cairn_checkpoint_done(handle));
  EXPECT(cairn_checkpoint_wait(handle) == CAIRN_OK);
  EXPECT(cairn_store_last_checkpoint(s.store) == cairn_checkpoint_id(handle));
  cairn_checkpoint_free(handle);
  cairn_store_close(s.store);
}

static void recovers_and_reads_views(const char* uri) {
  struct service s = open_service(uri);
  uint64_t checkpoint = 0;
  cairn_bytes offsets = {NULL, 0};
  const cairn_bytes* all = NULL;
  cairn_view* view = NULL;
  char value[2];
  size_t size = 0;
  EXPECT(cairn_partition_recover(s.partition, &checkpoint, &offsets) == CAIRN_OK);
  EXPECT(checkpoint == 1);
  EXPECT(offsets.size == 11 && memcmp(offsets.data, "offset 1000", 11) == 0);
  EXPECT(cairn_partition_recovered_offsets(s.partition, &all) == 1);
  EXPECT(all[0].size == 11);

  EXPECT(cairn_view_latest(s.partition, &view) == CAIRN_NOT_FOUND);
  cairn_partition_maintain(s.partition, 1000000);
  EXPECT(cairn_view_latest(s.partition, &view) == CAIRN_OK);
  EXPECT(cairn_view_count(view, s.table) == kRows - 1);
  EXPECT(cairn_view_get(view, s.table, text("key 42"), value, sizeof value, &size) == CAIRN_OK);
  EXPECT(size == 2 && memcmp(value, "42", 2) == 0);
  EXPECT(cairn_view_get(view, s.table, text("key 421"), value, sizeof value, &size) ==
         CAIRN_RESOURCE_EXHAUSTED);
  EXPECT(size == 3);
  EXPECT(cairn_view_get(view, s.table, text("key 0"), value, sizeof value, &size) ==
         CAIRN_NOT_FOUND);

  struct ArrowArrayStream stream;
  struct ArrowSchema schema;
  struct ArrowArray batch;
  int64_t rows = 0;
  EXPECT(cairn_view_export(view, s.table, 64, &stream) == CAIRN_OK);
  cairn_view_free(view); /* the stream keeps its own */
  EXPECT(stream.get_schema(&stream, &schema) == 0);
  EXPECT(strcmp(schema.format, "+s") == 0 && schema.n_children == 2);
  EXPECT(strcmp(schema.children[0]->name, "key") == 0);
  EXPECT(strcmp(schema.children[1]->format, "z") == 0);
  schema.release(&schema);
  for (;;) {
    EXPECT(stream.get_next(&stream, &batch) == 0);
    if (batch.release == NULL) break;
    EXPECT(batch.length >= 1 && batch.length <= 64);
    rows += batch.length;
    batch.release(&batch);
  }
  stream.release(&stream);
  EXPECT(rows == kRows - 1);
  cairn_store_close(s.store);
}

static void forgets_what_its_time_to_live_has_ended(void) {
  struct service s = {NULL, NULL, NULL};
  cairn_bytes key = text("k");
  cairn_bytes value = text("v");
  EXPECT(cairn_store_open("memory://", NULL, &s.store) == CAIRN_OK);
  EXPECT(cairn_partition_open(s.store, 0, &s.partition) == CAIRN_OK);
  EXPECT(cairn_table_declare_ttl(s.partition, "c", "rows", 100, "moon", &s.table) ==
         CAIRN_INVALID_ARGUMENT);
  EXPECT(cairn_table_declare_ttl(s.partition, "c", "rows", 100, "event", &s.table) == CAIRN_OK);
  EXPECT(cairn_partition_advance_watermark(s.partition, 1000) == CAIRN_INVALID_ARGUMENT);
  EXPECT(cairn_partition_recover(s.partition, NULL, NULL) == CAIRN_OK);
  EXPECT(cairn_partition_advance_watermark(s.partition, 1000) == CAIRN_OK);
  EXPECT(cairn_table_put(s.table, 1, &key, &value, NULL) == CAIRN_OK);
  EXPECT(cairn_partition_advance_watermark(s.partition, 1099) == CAIRN_OK);
  EXPECT(cairn_table_get(s.table, 1, &key, &value) == CAIRN_OK);
  EXPECT(value.size == 1);
  EXPECT(cairn_partition_advance_watermark(s.partition, 1110) == CAIRN_OK);
  EXPECT(cairn_table_get(s.table, 1, &key, &value) == CAIRN_OK);
  EXPECT(value.data == NULL);
  cairn_partition_maintain(s.partition, 1000000);
  EXPECT(cairn_table_size(s.table) == 0);
  cairn_store_close(s.store);
}

static void tells_what_is_wrong(const char* uri) {
  cairn_store* store = NULL;
  cairn_options* options = cairn_options_new();
  struct service s;
  EXPECT(cairn_store_open("tape://x", NULL, &store) == CAIRN_INVALID_ARGUMENT);
  EXPECT(strstr(cairn_last_error(), "memory://") != NULL);
  EXPECT(cairn_options_set(options, "checkpoint.retained", "99") == CAIRN_INVALID_ARGUMENT);
  EXPECT(cairn_options_set(options, "partitions", "two") == CAIRN_INVALID_ARGUMENT);
  EXPECT(cairn_options_set(options, "no.such", "1") == CAIRN_INVALID_ARGUMENT);
  cairn_options_free(options);
  s = open_service(uri);
  EXPECT(cairn_partition_checkpoint(s.partition, text(""), NULL) == CAIRN_INVALID_ARGUMENT);
  EXPECT(strstr(cairn_last_error(), "Recover") != NULL);
  EXPECT(cairn_store_open(uri, NULL, &store) == CAIRN_FENCED);
  cairn_store_close(s.store);
  EXPECT(strcmp(cairn_code_name(CAIRN_CORRUPTION), "corruption") == 0);
  EXPECT(cairn_c_api_version() == CAIRN_C_API_VERSION);
}

int main(int argc, char** argv) {
  char uri[4096];
  if (argc != 2) {
    fprintf(stderr, "usage: c_api_test EMPTY_DIRECTORY\n");
    return 2;
  }
  snprintf(uri, sizeof uri, "%s/place", argv[1]);
  writes_batches_and_checkpoints(uri);
  recovers_and_reads_views(uri);
  forgets_what_its_time_to_live_has_ended();
  tells_what_is_wrong(uri);
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
