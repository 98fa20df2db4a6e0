/* SPDX-License-Identifier: Apache-2.0
 *
 * The C interface of the state store: what cairn/state_store.h offers, for C and for languages that
 * call C. Stable: functions are added, never changed. docs/embedding.md has a whole program.
 *
 * Threads:  as in C++: a partition, its tables and cairn_partition_* belong to the thread that
 *           opened it; cairn_store_*, cairn_checkpoint_* and cairn_view_* are called by any.
 * Errors:   every call that can fail returns a cairn_code; cairn_last_error() then says what to do.
 * Memory:   handles are opaque; each has the one function that frees it. Bytes given to a call are
 *           copied; bytes handed out live as long as the call says. Passing NULL to a function that
 *           frees does nothing.
 */
#ifndef CAIRN_C_H_
#define CAIRN_C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface; grows when functions are added. */
#define CAIRN_C_API_VERSION 1
int32_t cairn_c_api_version(void);

/* What to do about a failure: the table of docs/errors.md. The numbers never change. */
typedef enum cairn_code {
  CAIRN_OK = 0,
  CAIRN_INVALID_ARGUMENT = 1,
  CAIRN_NOT_FOUND = 2,
  CAIRN_ALREADY_EXISTS = 3,
  CAIRN_UNAVAILABLE = 4,
  CAIRN_RESOURCE_EXHAUSTED = 5,
  CAIRN_FENCED = 6,
  CAIRN_UNSUPPORTED_FORMAT = 7,
  CAIRN_CORRUPTION = 8,
  CAIRN_CANCELLED = 9,
  CAIRN_INTERNAL = 10
} cairn_code;

/* "corruption", "not found", ... */
const char* cairn_code_name(cairn_code code);
/* Message of this thread's last call that failed; valid until its next failure. Never NULL. */
const char* cairn_last_error(void);

typedef struct cairn_bytes {
  const void* data;
  size_t size;
} cairn_bytes;

/* --- options -------------------------------------------------------------------------------- */

typedef struct cairn_options cairn_options;

/* Run `task(argument)` once, soon, on any one thread. */
typedef void (*cairn_executor)(void* context, void (*task)(void* argument), void* argument);

cairn_options* cairn_options_new(void);
void cairn_options_free(cairn_options* options);
/* "name", "partitions", "checkpoints", "recover_at", "fresh", or an option of docs/running.md such
 * as "checkpoint.interval". */
cairn_code cairn_options_set(cairn_options* options, const char* name, const char* value);
/* Without an executor, checkpoints are persisted inside cairn_store_poll and
 * cairn_checkpoint_wait. */
cairn_code cairn_options_set_executor(cairn_options* options, cairn_executor executor,
                                      void* context);

/* --- store ---------------------------------------------------------------------------------- */

typedef struct cairn_store cairn_store;

/* `options` may be NULL, and may be freed right after. */
cairn_code cairn_store_open(const char* uri, const cairn_options* options, cairn_store** out);
/* Frees partitions and tables too. Views and checkpoints of it are freed before. */
void cairn_store_close(cairn_store* store);
/* Persist what is complete, give up what is late. 1 when something was done. */
int32_t cairn_store_poll(cairn_store* store);
/* Partition that owns `key`. */
uint32_t cairn_store_partition_of(const cairn_store* store, cairn_bytes key);
/* Id of the last committed checkpoint; 0 = none. */
uint64_t cairn_store_last_checkpoint(const cairn_store* store);

/* --- partition ------------------------------------------------------------------------------ */

typedef struct cairn_partition cairn_partition; /* lives as long as the store */
typedef struct cairn_table cairn_table;         /* lives as long as the store */

cairn_code cairn_partition_open(cairn_store* store, uint32_t index, cairn_partition** out);

/* Declare a table of bytes by bytes, before cairn_partition_recover. */
cairn_code cairn_table_declare(cairn_partition* partition, const char* operator_uid,
                               const char* slot, cairn_table** out);

/* The same with a time to live: a value is gone `ttl_ms` after its last write, by the clock "event"
 * (cairn_partition_advance_watermark), "wall", or "stopped_while_down". */
cairn_code cairn_table_declare_ttl(cairn_partition* partition, const char* operator_uid,
                                   const char* slot, int64_t ttl_ms, const char* clock,
                                   cairn_table** out);

/* Load the newest cut. `checkpoint` (0 = none) and `offsets` may be NULL; offsets live until the
 * store is closed. */
cairn_code cairn_partition_recover(cairn_partition* partition, uint64_t* checkpoint,
                                   cairn_bytes* offsets);
/* Offsets of every partition of the recovered checkpoint, and their number: for when it was taken
 * with another number of partitions. */
size_t cairn_partition_recovered_offsets(const cairn_partition* partition,
                                         const cairn_bytes** offsets);
/* Let event time, in milliseconds since 1970, come to `time_ms`. It never goes back. */
cairn_code cairn_partition_advance_watermark(cairn_partition* partition, int64_t time_ms);
/* Free what released views held and what its time to live has ended, and publish a view, for about
 * `budget_ns`. */
void cairn_partition_maintain(cairn_partition* partition, int64_t budget_ns);
int32_t cairn_partition_checkpoint_due(const cairn_partition* partition);

/* --- tables: batches ------------------------------------------------------------------------ */

/* Write values[i] for keys[i], in order. On failure, `done` (may be NULL) tells how many were
 * written. */
cairn_code cairn_table_put(cairn_table* table, size_t count, const cairn_bytes* keys,
                           const cairn_bytes* values, size_t* done);
/* Read: values[i].data is NULL when keys[i] is absent. Valid until the table is changed. */
cairn_code cairn_table_get(cairn_table* table, size_t count, const cairn_bytes* keys,
                           cairn_bytes* values);
/* Remove; `erased` (may be NULL) tells how many were there. */
cairn_code cairn_table_erase(cairn_table* table, size_t count, const cairn_bytes* keys,
                             size_t* erased);
uint64_t cairn_table_size(const cairn_table* table);

/* --- checkpoints ---------------------------------------------------------------------------- */

typedef struct cairn_checkpoint cairn_checkpoint;

/* Join the next checkpoint with the state as it is now and `offsets`. `out` may be NULL. */
cairn_code cairn_partition_checkpoint(cairn_partition* partition, cairn_bytes offsets,
                                      cairn_checkpoint** out);
uint64_t cairn_checkpoint_id(const cairn_checkpoint* checkpoint);
int32_t cairn_checkpoint_done(const cairn_checkpoint* checkpoint);
/* CAIRN_UNAVAILABLE before it is done. */
cairn_code cairn_checkpoint_result(const cairn_checkpoint* checkpoint);
cairn_code cairn_checkpoint_wait(cairn_checkpoint* checkpoint);
/* Call fn(context, code, message) once: on the thread that persists, at once when it is done. */
void cairn_checkpoint_on_done(cairn_checkpoint* checkpoint,
                              void (*fn)(void* context, cairn_code code, const char* message),
                              void* context);
void cairn_checkpoint_free(cairn_checkpoint* checkpoint);

/* --- views: an immutable cut, for any thread ------------------------------------------------- */

typedef struct cairn_view cairn_view;

/* Cut the partition now. Its own thread. */
cairn_code cairn_view_capture(cairn_partition* partition, cairn_view** out);
/* The newest published view; CAIRN_NOT_FOUND before the first. Any thread. */
cairn_code cairn_view_latest(cairn_partition* partition, cairn_view** out);
/* Copy the value of `key` to `buffer` and its size to `size`. CAIRN_NOT_FOUND when the view shows
 * none; CAIRN_RESOURCE_EXHAUSTED, with `size` set, when it is larger than `capacity`. */
cairn_code cairn_view_get(const cairn_view* view, const cairn_table* table, cairn_bytes key,
                          void* buffer, size_t capacity, size_t* size);
uint64_t cairn_view_count(const cairn_view* view, const cairn_table* table);

struct ArrowArrayStream; /* cairn/arrow.h */
/* Export a table as the view shows it: a stream of batches with the binary columns "key" and
 * "value", at most `batch_rows` rows each. The stream keeps the view; release it before the store
 * is closed. */
cairn_code cairn_view_export(const cairn_view* view, const cairn_table* table, size_t batch_rows,
                             struct ArrowArrayStream* out);
void cairn_view_free(cairn_view* view);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_C_H_ */
