package snapshot

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"hutch/fs"
)

// A Point is a moment that a snapshot is of: before a call or a command. A
// snapshot is of several, where nothing changed from one to the next.
type Point struct {
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
	What string    `json:"what"` // that was about to be done

	Snapshot string `json:"-"`
}

// MaxPoints is how many points a snapshot is of.
const MaxPoints = 1000

const points = "points"

// note writes the point down in the folder of its snapshot.
func (p Point) note(dir string) error {
	line, err := fs.MarshalLine(p)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, points), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	// What is there may end in half a line, of one that could not be written.
	_, err = f.WriteString("\n" + string(line) + "\n")
	return err
}

// Note writes down a point that the snapshot called name is of as well.
func (s *Store) Note(name string, p Point) error { return p.note(s.Dir(name)) }

// Points returns the points that the snapshot called name is of, the oldest
// first.
func (s *Store) Points(name string) ([]Point, error) {
	f, err := os.Open(filepath.Join(s.Dir(name), points))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []Point
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		p := Point{Snapshot: name}
		if json.Unmarshal(lines.Bytes(), &p) == nil { // else it is empty, or half a line
			list = append(list, p)
		}
	}
	return list, lines.Err()
}
