package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hutch/fs"
	"hutch/mcpd/dispatch"
	"hutch/mcpd/policy"
)

// An execRow is as much of a command's row as is needed.
type execRow struct {
	ID      uint64    `json:"id"`
	Time    time.Time `json:"timestamp"`
	Command string    `json:"command"`
	Source  string    `json:"source"`
	Process string    `json:"process_name"`
	Call    uint64    `json:"mcp_call_id"`
}

// words returns the words of a command, if the ledger has them all as they were.
func (r *execRow) words() (words []string, whole bool) {
	words, err := fs.Words(r.Command)
	lost := strings.Contains(r.Command, "[redacted]") || strings.Contains(r.Command, "… [cut, ") || strings.ContainsRune(r.Command, '\ufffd')
	return words, err == nil && len(words) > 0 && !lost
}

// addCommand counts what cmd.run ran, by what a profile lists of commands: the
// name and the first argument, with a NUL between, which no word has.
func (u *usage) addCommand(line []byte) {
	var r execRow
	if json.Unmarshal(line, &r) != nil || r.Source != dispatch.Tool || u.observed[r.Call] {
		return
	}
	words, whole := r.words()
	if !whole {
		u.commands.left++
		return
	}
	u.commands.add(strings.Join(words[:min(2, len(words))], "\x00"), r.Time)
}

// writeCommands writes the list of commands. It cannot say that a command may
// have no argument and not any: the rules do.
func (u *usage) writeCommands(b *strings.Builder) {
	firsts := map[string][]string{}
	bare := map[string]bool{}
	for _, words := range slices.Sorted(maps.Keys(u.commands.names)) {
		name, first, has := strings.Cut(words, "\x00")
		firsts[name] = append(firsts[name], celString(first))
		bare[name] = bare[name] || !has
	}
	if len(firsts) == 0 {
		return
	}
	b.WriteString("\n[cmd]\nenabled = true\n\n[cmd.allow]\n")
	for _, name := range slices.Sorted(maps.Keys(firsts)) {
		list := strings.Join(firsts[name], ", ")
		if bare[name] {
			list = ""
		}
		fmt.Fprintf(b, "%s = [%s]\n", celString(name), list)
	}
}

// celWords returns a command and its argument as a list of CEL.
func celWords(words string) string {
	var list []string
	for word := range strings.SplitSeq(words, "\x00") {
		list = append(list, celString(word))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// refused decides the command of a call that was refused, which no record is of.
func (r *replay) refused(d *difference, e *policy.Event) *difference {
	command, err := r.profile.Cmd.Plan(e.Args)
	if err != nil { // it would not run either
		return nil
	}
	return r.runs(d, command, e.Process)
}

// command decides a command again that cmd.run ran.
func (r *replay) command(line []byte) *difference {
	var row execRow
	if json.Unmarshal(line, &row) != nil || row.Source != dispatch.Tool {
		return nil
	}
	d := &difference{ID: row.ID, Time: row.Time, What: row.Command, Then: policy.Allow, ByThen: r.ran[row.Call]}
	words, whole := row.words()
	if !whole {
		d.Now, d.Reason = unknown, "it is not known whole"
		return d
	}
	return r.runs(d, dispatch.Command{Words: words}, row.Process)
}

// runs has the difference say whether a command would run now.
func (r *replay) runs(d *difference, c dispatch.Command, process string) *difference {
	if !r.profile.Cmd.Enabled {
		return d.decided(policy.Decision{Action: policy.Block, Rule: "cmd.enabled", Reason: "there is no " + dispatch.Tool})
	}
	now := r.profile.Policy.Decide(&policy.Event{
		On: policy.OnExec, VM: r.vm, Profile: r.profile.Name, Process: process, Command: c.Words[0], Words: c.Words[1:], Dir: c.Dir,
		Server: dispatch.Server, Tool: dispatch.Tool, Name: dispatch.Tool, Method: "tools/call", Known: true, Trial: true,
	})
	if now.Rule == policy.RuleCommands && c.Dir == "" && len(c.Words) > 1 && strings.HasPrefix(c.Words[1], "./") {
		d.Now, d.Reason = unknown, "the folder that it ran in is not recorded"
		return d
	}
	return d.decided(now)
}
