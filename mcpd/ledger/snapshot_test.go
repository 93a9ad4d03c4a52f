package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"hutch/fs"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A seen is a row as a test compares it.
type seen struct {
	ID   uint64 `json:"id"`
	Time string `json:"timestamp"`
}

// found returns what a search finds, and of how many blocks it knew before.
func found(t *testing.T, s *Snapshot, table string, within Range, order Order) (rows []seen, blocks int) {
	t.Helper()
	r, err := s.Rows(bg, tableIndex(table), within, order)
	if err != nil {
		t.Fatal(err)
	}
	if blocks = len(r.blocks); order != ByLine {
		blocks = len(r.sorted.spans)
	}
	for {
		more, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return rows, blocks
		}
		rows = append(rows, seen{r.ID, string(r.Time)})
	}
}

func snapshot(t *testing.T, db *DB) *Snapshot {
	t.Helper()
	s, err := db.Snapshot(bg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// interleave records n calls of which many are under way at once, some for long,
// and which end as they like.
func interleave(t *testing.T, db *DB, r *rand.Rand, n int) {
	t.Helper()
	end := func(id uint64) {
		if err := db.End(id, Outcome{}); err != nil {
			t.Fatal(err)
		}
	}
	var under []uint64
	for i := range n {
		id, _, err := db.Begin(bg, Call{Time: noon.Add(time.Duration(i)*time.Second + time.Duration(r.IntN(5000))*time.Millisecond), Request: []byte(strings.Repeat("x", r.IntN(1200)))})
		if err != nil {
			t.Fatal(err)
		}
		under = append(under, id)
		for len(under) > 40 || len(under) > 0 && r.IntN(2) == 0 {
			k := len(under) - 1
			if len(under) > 40 || r.IntN(30) > 0 {
				k = r.IntN(len(under))
			}
			end(under[k])
			under = slices.Delete(under, k, k+1)
		}
	}
	for _, id := range under[min(1, len(under)):] {
		end(id)
	}
}

// TestSearch holds what searches find against a look at every line.
func TestSearch(t *testing.T) {
	db := open(t, temp(t), Options{})
	r := rand.New(rand.NewPCG(1, 2))
	old := begin1(t, db, Call{Time: noon, Tool: "under way all the time"})
	for _, n := range []int{0, 1, 300, 5, 2000} { // the index goes on where it stood
		interleave(t, db, r, n)
		s := snapshot(t, db)
		var every []seen
		for line := range strings.Lines(all(t, db, Calls)) {
			var row seen
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			every = append(every, row)
		}
		begin1(t, db, Call{}) // after the snapshot
		for range 60 {
			within := All
			switch r.IntN(4) {
			case 0:
				within.MinID = r.Uint64N(2500)
				within.MaxID = within.MinID + r.Uint64N(50)
			case 1:
				within.MinTime = noon.Add(time.Duration(r.IntN(2400)) * time.Second).Format("2006-01-02T15:04:05")
				within.MaxTime = within.MinTime + "zz"
			case 2:
				within.MinID, within.MaxTime = r.Uint64N(2500), noon.Add(time.Duration(r.IntN(2400))*time.Second).Format(fs.TimeFormat)
			}
			for order := ByLine; order <= ByTimeDown; order++ {
				want := slices.DeleteFunc(slices.Clone(every), func(row seen) bool { return !within.holds(row.ID, []byte(row.Time)) })
				slices.SortStableFunc(want, func(a, b seen) int {
					switch order {
					case ByID:
						return cmp.Compare(a.ID, b.ID)
					case ByIDDown:
						return cmp.Compare(b.ID, a.ID)
					case ByTime:
						return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.ID, b.ID))
					case ByTimeDown:
						return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(b.ID, a.ID))
					}
					return 0
				})
				if got, _ := found(t, s, Calls, within, order); !slices.Equal(got, want) {
					t.Fatalf("%d rows, %+v, order %d:\ngot  %v\nwant %v", len(every), within, order, got, want)
				}
			}
		}
	}
	s := snapshot(t, db)
	_, full := found(t, s, Calls, All, ByLine)
	if _, some := found(t, s, Calls, Range{MinID: 1000, MaxID: 1010}, ByLine); full < 15 || some > 4 {
		t.Errorf("of %d blocks %d were looked at for 11 ids", full, some)
	}
	end1(t, db, old, Outcome{}) // the line that is last is of the first call
	if got, _ := found(t, snapshot(t, db), Calls, Range{MaxID: old}, ByLine); len(got) != 1 || got[0].ID != old {
		t.Errorf("the call that took longest: %v", got)
	}
}

// Rows that are dropped are an error to who has not come to them, and nobody else.
func TestSearchDropped(t *testing.T) {
	db := open(t, temp(t), Options{Limit: 1 << 20})
	fill := func() {
		for i := range 400 {
			db.Queue(bg, VMs, Row{"event": fmt.Sprint(i), "text": strings.Repeat("x", 2000)})
		}
		if err := db.Flush(bg); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	table := tableIndex(VMs)
	before, err := snapshot(t, db).Rows(bg, table, All, ByLine)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		fill()
	}
	for err == nil {
		var more bool
		if more, err = before.Next(); !more && err == nil {
			t.Fatal("nothing was missed")
		}
	}
	if !fs.Is(err, fs.ErrBusy) || !strings.Contains(err.Error(), "ask again") {
		t.Errorf("dropped rows: %v", err)
	}
	rows, blocks := found(t, snapshot(t, db), VMs, All, ByLine)
	if last := rows[len(rows)-1].ID; rows[0].ID == 1 || last-rows[0].ID != uint64(len(rows)-1) || blocks != len(db.logs[table].index.blocks) {
		t.Errorf("%d rows from %d to %d in %d blocks", len(rows), rows[0].ID, last, blocks)
	}
}

// Lines of a damaged file that are no records are passed over, and counted.
func TestSearchDamaged(t *testing.T) {
	db := open(t, temp(t), Options{})
	for i := range 10 {
		if err := db.Append(bg, Security, Row{"event": fmt.Sprint(i), "text": "x"}); err != nil {
			t.Fatal(err)
		}
	}
	err := db.bolt.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(Security))
		n := 0
		return b.ForEach(func(k, v []byte) error {
			v = bytes.Clone(v)
			switch n++; n {
			case 2:
				v = bytes.Replace(v, []byte(`"id"`), []byte(`"ix"`), 1)
			case 4:
				v = append(bytes.Repeat([]byte{0}, len(v)-1), '\n')
			case 6:
				v = bytes.Replace(v, []byte(`"x"`), []byte(`"xx`), 1)
			case 8:
				v = bytes.Replace(v, []byte("T"), []byte(" "), 1)
			}
			return b.Put(k, v)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for order := ByLine; order <= ByTimeDown; order++ {
		if rows, _ := found(t, snapshot(t, db), Security, All, order); len(rows) != 6 {
			t.Errorf("order %d: %v", order, rows)
		}
	}
	if n := db.Unreadable(); n != 4 {
		t.Errorf("%d were unreadable", n)
	}
}

func TestRecord(t *testing.T) {
	for _, line := range []string{
		`{"id":7,"timestamp":"2026-11-20T12:00:00.000000Z"}`,
		`{"id":7,"timestamp":"2026-11-20T12:00:00.000000Z","none":"a\\","server_name":"\"s\"","duration_ms":1.5}`,
		`{"duration_ms":1.5,"timestamp":"2026-11-20T12:00:00.000000Z","server_name":"\"s\"","id":7}`,
	} {
		r := Record{table: &Tables[calls]}
		r.begin([]byte(line))
		if err := r.check(); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		r.begin([]byte(line))
		var want map[string]json.RawMessage
		json.Unmarshal([]byte(line), &want)
		for i := len(Tables[calls].Columns) - 1; i >= 0; i-- {
			if got := r.Value(i); string(got) != string(want[Tables[calls].Columns[i].Name]) {
				t.Errorf("%s: %s is %s", line, Tables[calls].Columns[i].Name, got)
			}
		}
	}
}

// FuzzRecord reads any line, and those that are records as encoding/json does.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"id":7,"timestamp":"2026-11-20T12:00:00.000000Z","x":null,"tool_name":"a\"b","duration_ms":1.5e3}`))
	f.Add([]byte(`{"id":`))
	f.Add([]byte(`{"\":1}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r := Record{table: &Tables[calls]}
		r.begin(line)
		err := r.check()
		r.begin(line)
		var want map[string]json.RawMessage
		if json.Unmarshal(line, &want) != nil {
			want = nil
		}
		for i, c := range Tables[calls].Columns {
			got := r.Value(i)
			if err == nil && want != nil && bytes.Count(line, []byte(`"`+c.Name+`"`)) == 1 && !bytes.Contains(line, []byte(`\u`)) && string(got) != string(want[c.Name]) {
				t.Errorf("%s: %s is %q", line, c.Name, got)
			}
		}
	})
}

func TestWritten(t *testing.T) {
	db := opened(t)
	queue := func() {
		if err := db.Queue(bg, VMs, Row{"event": "e"}); err != nil {
			t.Fatal(err)
		}
	}
	queue()
	s := snapshot(t, db)
	if s.Written() {
		t.Error("what was written before the snapshot counts")
	}
	queue()
	if err := db.Flush(bg); err != nil {
		t.Fatal(err)
	}
	if !s.Written() || s.Written() {
		t.Error("a commit is told of once")
	}
}

// While somebody reads on what others wrote, what was read can be found, and who
// wants more can give up.
func TestSearchWhileReading(t *testing.T) {
	db := open(t, temp(t), Options{})
	interleave(t, db, rand.New(rand.NewPCG(1, 2)), 10)
	s := snapshot(t, db)
	want, _ := found(t, s, Calls, All, ByID)
	turn := db.Log(Calls).index.turn
	turn <- struct{}{}
	if got, _ := found(t, s, Calls, All, ByID); !slices.Equal(got, want) || len(got) == 0 || db.Unreadable() != 0 {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
	interleave(t, db, rand.New(rand.NewPCG(3, 4)), 10)
	s = snapshot(t, db)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Rows(gone, 0, All, ByID); !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v", err)
	}
	<-turn
	if got, _ := found(t, s, Calls, All, ByID); len(got) <= len(want) {
		t.Errorf("%d rows, had %d", len(got), len(want))
	}
}
