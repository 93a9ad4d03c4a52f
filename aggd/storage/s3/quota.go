package s3

import (
	"context"
	"fmt"
	"time"

	"github.com/minio/minio-go/v7"
)

// recount is how long a count of bytes holds: others may write to the bucket too.
const recount = time.Minute

// A quota limits the bytes of a bucket's objects. What they are is listed from
// time to time, and what is written meanwhile is added. Those who write take
// turns, so nobody here passes the limit; who else writes below the prefix can
// pass it until the next count.
type quota struct {
	limit int64
	turn  chan struct{} // full while somebody writes

	used    int64 // the rest is his
	counted time.Time
}

// write does what replaces old bytes by so many, if there is room for them.
func (q *quota) write(ctx context.Context, b *Bucket, old, size int64, do func() error) error {
	if q.limit == 0 {
		return do()
	}
	select {
	case q.turn <- struct{}{}:
		defer func() { <-q.turn }()
	case <-ctx.Done():
		return plain(ctx.Err())
	}
	if time.Since(q.counted) > recount {
		if err := q.count(ctx, b); err != nil {
			return err
		}
	}
	if size > old && q.used-old+size > q.limit {
		return fmt.Errorf("quota exceeded: %d bytes of %d are used, and %d more are asked for", q.used, q.limit, size-old)
	}
	if err := do(); err != nil {
		q.counted = time.Time{} // it may have been done all the same
		return err
	}
	q.used += size - old
	return nil
}

func (q *quota) count(ctx context.Context, b *Bucket) error {
	q.used = 0
	for o := range b.objects(ctx, minio.ListObjectsOptions{Prefix: b.prefix, Recursive: true}) {
		if o.Err != nil {
			return plain(o.Err)
		}
		q.used += o.Size
	}
	q.counted = time.Now()
	return nil
}
