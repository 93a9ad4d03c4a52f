package tree

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hutch/mcpd/timeline"
	"hutch/profiles"
)

// manualEntries returns the paths and the control messages that hutch.4 has
// an entry for: what follows a .TP, without fonts.
func manualEntries(t *testing.T) (paths, messages []string) {
	text, err := os.ReadFile("hutch.4")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	section := ""
	entry := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, ".SS ") || strings.HasPrefix(line, ".SH "):
			section = line[4:]
		case line == ".TP":
			entry = true
		case line == ".PD" || line == ".PD 0":
		case entry:
			entry = false
			plain := unfont(line)
			if of, ok := strings.CutPrefix(section, "Control messages of "); ok {
				messages = append(messages, of+": "+plain)
			} else if strings.HasPrefix(section, "Files of") {
				paths = append(paths, plain)
			}
		}
	}
	return paths, messages
}

var quoted = regexp.MustCompile(`"([^"]*)"`)

// unfont returns the text of a line of .B, .BI or .BR.
func unfont(line string) string {
	_, text, _ := strings.Cut(line, " ")
	held := quoted.ReplaceAllStringFunc(text, func(q string) string { return strings.ReplaceAll(q[1:len(q)-1], " ", "\x00") })
	return strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(held, " ", ""), "\x00", " "))
}

// asOfVM is what a server or a group has that is as a VM's: hutch.4 tells of it once.
var asOfVM = regexp.MustCompile(`^(?:servers|groups)/NAME/(policy|mcp|db|timeline|tools/)`)

// tablePaths returns every path of the table that is no VM's over again, the names
// of generated entries as the table calls them.
func tablePaths(rows []row, dir string) []string {
	var list []string
	if asOfVM.MatchString(dir) {
		return nil
	}
	for i := range rows {
		r := &rows[i]
		if path := dir + r.Name; !asOfVM.MatchString(path) {
			list = append(list, path)
		}
		list = append(list, tablePaths(r.Rows, dir+r.Name+"/")...)
		list = append(list, tablePaths(r.Each, dir+r.Name+"/")...)
	}
	return list
}

func TestManualHasEveryFile(t *testing.T) {
	inManual, _ := manualEntries(t)
	inTable := tablePaths(rows(), "")
	compare(t, inTable, inManual)
}

func TestManualHasEveryMessage(t *testing.T) {
	_, inManual := manualEntries(t)
	var inTable []string
	for of, verbs := range map[string][]verb{
		"the service": rootVerbs(), "a VM": vmVerbs(), "an image": imageVerbs(), "a command": execVerbs(), "the endpoint": mcpVerbs(),
		"a session": sessionVerbs(), "a client": clientVerbs(), "a connection": tcpVerbs(), "the registry": registryVerbs(),
		"a server": serverVerbs(), "a group": groupVerbs(),
	} {
		for _, v := range verbs {
			inTable = append(inTable, of+": "+strings.ReplaceAll(usage(v), "…", "..."))
		}
	}
	for _, v := range timeline.Words {
		inTable = append(inTable, "a timeline: "+v.Name+" "+strings.ReplaceAll(v.Args, "…", "..."))
	}
	compare(t, inTable, inManual)
}

var (
	configKey = regexp.MustCompile(`(?m)^\.BR? (\w+) ?[,.]?$`)
	limit     = regexp.MustCompile(`(?m)^\.BI (\w+) " [A-Z]+"$`)
)

// TestManualHasEveryKey compares the keys of a config, and what limits they
// have, with those that hutch.4 tells of.
func TestManualHasEveryKey(t *testing.T) {
	text, err := os.ReadFile("hutch.4")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "Key value lines, of which the last of a key counts:\n")
	list, _, _ = strings.Cut(list, "\n.B net\n")
	_, page, _ := strings.Cut(string(text), "\n.SS Limits\n")
	page, _, _ = strings.Cut(page, "\n.SS ")
	limits := limit.Split(page, -1)[1:]
	var keys, inList, limited, inLimits []string
	for _, m := range configKey.FindAllStringSubmatch(list, -1) {
		inList = append(inList, m[1])
	}
	for i, m := range limit.FindAllStringSubmatch(page, -1) {
		inLimits = append(inLimits, m[1])
		k, entry := profiles.FindKey(m[1]), strings.ReplaceAll(limits[i], " ", "")
		for _, v := range []string{k.Min, k.Max, k.Default} {
			if v != "1s" && !strings.Contains(entry, v) { // which is said in words
				t.Errorf("the limits in hutch.4 do not tell %s of %s", v, k.Name)
			}
		}
	}
	for _, k := range profiles.Keys {
		if k.In&profiles.InConfig == 0 {
			continue
		}
		keys = append(keys, k.Name)
		if k.Min != "" {
			limited = append(limited, k.Name)
		}
	}
	compare(t, keys, inList)
	compare(t, limited, inLimits)
}

func compare(t *testing.T, inTable, inManual []string) {
	t.Helper()
	for _, name := range inTable {
		if !slices.Contains(inManual, name) {
			t.Errorf("%s has no entry in hutch.4", name)
		}
	}
	for _, name := range inManual {
		if !slices.Contains(inTable, name) {
			t.Errorf("hutch.4 has an entry for %s, which the tree has not", name)
		}
	}
}

// TestWhatBlocksEndsElsewhere holds that a file which blocks has one that ends, where
// README says.
func TestWhatBlocksEndsElsewhere(t *testing.T) {
	docs := map[string]string{}
	eachRow("", rows(), func(name string, r *row) { docs[name] = r.Doc })
	blocking := 0
	for name, doc := range docs {
		if !strings.Contains(doc, "blocks") {
			continue
		}
		blocking++
		dir, file := path.Split(name)
		twin := dir + "log/" + file
		switch file {
		case "follow":
			twin = dir + "service"
		case "next":
			twin = strings.TrimSuffix(dir, "/")
		case "wait":
			twin = dir + "status"
		case "calls":
			twin = strings.TrimSuffix(dir, "mcp/") + "log/audit"
			if strings.HasPrefix(dir, "vm/") {
				twin = strings.TrimSuffix(dir, "mcp/") + "log/mcp"
			}
		}
		if doc, ok := docs[twin]; !ok || strings.Contains(doc, "blocks") {
			t.Errorf("%s blocks, and there is no %s", name, twin)
		}
	}
	if blocking < 10 {
		t.Errorf("%d files block", blocking)
	}
}

// TestTable checks what the engine takes for granted of rows.
func TestTable(t *testing.T) {
	checkRows(t, "", rows())
}

func checkRows(t *testing.T, dir string, rows []row) {
	seen := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		path := dir + r.Name
		if seen[r.Name] || r.Doc == "" {
			t.Errorf("%s is there twice, or says nothing of itself", path)
		}
		seen[r.Name] = true
		read := r.Read != nil || r.Open != nil
		write := r.Write != nil || r.Verbs != nil || r.Store != nil || r.Open != nil
		switch {
		case r.IsDir():
			if all := r.Perm & 0o555; all != 0o555 && all != 0o500 { // everybody's, or its owner's
				t.Errorf("%s: a directory with mode %o", path, r.Perm)
			}
		case r.Perm&0o444 != 0 && !read, r.Perm&0o222 != 0 && !write:
			t.Errorf("%s: mode %o, and nothing behind it", path, r.Perm)
		}
		if (r.Names == nil) != (r.Enter == nil) || (r.Enter != nil) != (len(r.Each) == 1) {
			t.Errorf("%s: Names, Enter and Each go together", path)
		}
		checkRows(t, path+"/", r.Rows)
		checkRows(t, path+"/", r.Each)
	}
}
