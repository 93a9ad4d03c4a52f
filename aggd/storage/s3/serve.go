package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"hutch/aggd/storage"
	"hutch/aggd/wire"
)

// Serve reads a storage.Bucket from the first line of in, and then serves the
// requests that come there until that ends, many at once.
func Serve(in io.Reader, out io.Writer) error {
	lines := wire.NewReader(in, storage.MaxLine)
	line, err := lines.Read()
	if err != nil {
		return fmt.Errorf("bucket: %w", err)
	}
	var c storage.Bucket
	if json.Unmarshal(line, &c) != nil { // whose error could tell a key
		return errors.New("bucket: the line is not understood")
	}
	b, err := New(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	var mu sync.Mutex // one line at a time
	answer := func(a storage.Reply) {
		mu.Lock()
		defer mu.Unlock()
		json.NewEncoder(out).Encode(a)
	}
	turns := make(chan struct{}, storage.MaxRequests)
	for {
		line, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var r storage.Request
		if err == nil {
			err = json.Unmarshal(line, &r)
		}
		if err != nil {
			return fmt.Errorf("request: %w", err)
		}
		select {
		case turns <- struct{}{}:
		default: // those who asked have gone away
			answer(storage.Reply{ID: r.ID, Error: "storage: too many requests are under way"})
			continue
		}
		work.Go(func() {
			defer func() { <-turns }()
			ctx, cancel := context.WithTimeout(ctx, storage.Patience)
			defer cancel()
			answer(b.do(ctx, r))
		})
	}
}

// do does what a request asks.
func (b *Bucket) do(ctx context.Context, r storage.Request) storage.Reply {
	a := storage.Reply{ID: r.ID}
	var err error
	switch r.Method {
	case "read":
		a.Data, a.Info, err = b.Read(ctx, r.Name, r.Off, r.N)
	case "write":
		err = b.Write(ctx, r.Name, r.Data, r.How)
	case "replace":
		err = b.Replace(ctx, r.Name, r.Data, r.Was)
	case "stat":
		a.Info, err = b.Stat(ctx, r.Name)
	case "list":
		a.List, a.More, err = b.List(ctx, r.Name, int(r.N))
	case "remove":
		err = b.Remove(ctx, r.Name)
	default:
		err = errors.New("no such method")
	}
	if err != nil {
		return storage.Reply{ID: r.ID, Error: err.Error()}
	}
	return a
}
