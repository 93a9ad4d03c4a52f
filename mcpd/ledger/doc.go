// Package ledger keeps the session database of one VM: what its agent asked
// of the outside world, what was decided, and what came of it.
//
// The database is a handful of append-only tables in one bbolt file. Each
// table is a growing text of JSON lines and is read as one: by byte offset,
// from any point, to the end and beyond it. Offsets hold over restarts.
//
// # Writing
//
// Records collect in a batch. One goroutine, the committer, takes the batch
// and commits it, without a timer; what arrives meanwhile is the next batch.
// So a lone record waits for one commit and many share one. Records can be
// read as soon as they are durable, never before.
//
// A call has three moments. Begin makes the request durable, in a bucket
// beside the tables, and Decide the decision, which may take a person's time;
// End moves them with the outcome to the table mcp_calls. A call whose End
// never came is moved there by the next Open, its outcome "interrupted". So each call has exactly one line, and
// the lines stand in the order in which the calls ended. What is under way for longer
// has a line at its beginning, too, which is no row.
//
// The freelist is written with every commit: it is small in a file that only
// grows, costs nothing that could be measured, and without it every Open
// would walk the whole file, in a goroutine of bbolt's whose panic on a
// damaged page nobody can catch.
//
// # Secrets
//
// Every text is redacted before it is written; see package redact.
//
// # Locks
//
// DB.mu guards the batch and the calls under way, Log.mu the end of one
// table. They are never held together, nor during a commit.
package ledger
