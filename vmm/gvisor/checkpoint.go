//go:build linux

package gvisor

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"hutch/fs"
)

// maxNotes is how long the notes at the head of a checkpoint may be, as runsc
// has it too.
const maxNotes = 16 << 20

// saved returns the configuration of the machine whose checkpoint is in dir.
// runsc restores none that differs in more than where things are, and what is
// configured here differs from version to version; so the checkpoint's goes
// before. It begins with a magic word, the length of the notes, and the notes,
// of which one is the configurations of the containers in it, of which we have one.
func saved(dir string) (c ociSpec, err error) {
	f, err := os.Open(filepath.Join(dir, "checkpoint.img"))
	if err != nil {
		return c, err
	}
	defer f.Close()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: checkpoint: %w", fs.ErrIO, err)
		}
	}()
	var head struct {
		Magic  [8]byte
		Length uint64
	}
	if err := binary.Read(f, binary.BigEndian, &head); err != nil {
		return c, err
	}
	if string(head.Magic[:]) != "gVisorSF" || head.Length > maxNotes {
		return c, fmt.Errorf("not of gVisor")
	}
	text := make([]byte, head.Length)
	if _, err := io.ReadFull(f, text); err != nil {
		return c, err
	}
	var notes struct {
		Specs string `json:"container_specs"`
	}
	if err := json.Unmarshal(text, &notes); err != nil {
		return c, err
	}
	specs := make(map[string]ociSpec)
	if err := json.Unmarshal([]byte(notes.Specs), &specs); err != nil {
		return c, err
	}
	for _, c = range specs {
		return c, nil
	}
	return c, fmt.Errorf("no container in it")
}

// placed returns c with what may differ in a machine that goes on as it is in
// now: its name, environment, and where the host has its files.
func (c ociSpec) placed(now ociSpec) ociSpec {
	sources := make(map[string]string)
	for _, m := range now.Mounts {
		sources[m.Destination] = m.Source
	}
	for i, m := range c.Mounts {
		if source, ok := sources[m.Destination]; ok {
			c.Mounts[i].Source = source
		}
	}
	c.Root.Path, c.Hostname, c.Process.Env = now.Root.Path, now.Hostname, now.Process.Env
	if c.Annotations == nil {
		c.Annotations = make(map[string]string)
	}
	c.Annotations[socketsKey] = now.Annotations[socketsKey]
	for key := range c.Annotations {
		if text, ok := now.Annotations[key]; ok && strings.HasSuffix(key, ".source") {
			c.Annotations[key] = text
		}
	}
	return c
}
