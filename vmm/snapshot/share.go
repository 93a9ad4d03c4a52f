package snapshot

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"

	"hutch/vmm/replica"
)

// seen ends the names of the files that say what the files of a part were.
const seen = ".seen"

// since has r share files with the newest snapshot that can. Should that be
// dropped meanwhile, they are copied.
func (s *Store) since(part string, r *replica.Replica) {
	list, err := s.List()
	if err != nil || len(list) == 0 {
		return
	}
	dir := s.Dir(list[len(list)-1].Name)
	f, err := os.Open(filepath.Join(dir, part+seen))
	if err != nil {
		return
	}
	defer f.Close()
	if rec, err := replica.ReadRecord(bufio.NewReader(f)); err == nil {
		r.Since(filepath.Join(dir, part), rec)
	}
}

func remember(path string, rec replica.Record) error {
	if len(rec) == 0 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	return errors.Join(rec.Write(w), w.Flush(), f.Close())
}
