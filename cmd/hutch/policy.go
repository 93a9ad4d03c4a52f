package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hutch/fs"
	"hutch/mcpd/policy"
	"hutch/profiles"
)

// definePolicy has the command that prints what a VM has of its policy, or tests
// a policy.
func definePolicy(flags *flag.FlagSet) action {
	var from policySource
	flags.StringVar(&from.vm, "vm", "", "test that of a `VM`")
	flags.StringVar(&from.profile, "profile", "", "test or replay that of a `profile` of the service")
	flags.StringVar(&from.file, "file", "", "test that of a `file`, a profile by itself, without a service")
	return func(ctx context.Context, args []string) error {
		switch {
		case (args[0] == "rules" || args[0] == "suggest") && len(args) == 2 && from == policySource{}:
			return connected(policyFile)(ctx, args)
		case args[0] == "replay" && len(args) == 2 && from == policySource{profile: from.profile}:
			return connected(from.replay)(ctx, args[1:])
		case args[0] == "test" && len(args) > 1 && from.one():
			return from.test(ctx, args[1:])
		case args[0] == "test" && len(args) > 1:
			return misused("policy", "test: say whose policy by one of -vm VM, -profile NAME and -file FILE")
		}
		return misuse(lookup("policy").usage())
	}
}

// policyFile prints a file of a policy: its name, and whose it is, a VM's, a server's or a group's.
func policyFile(ctx context.Context, c *tree, args []string) error {
	dir, err := placeIn(c, args[1])
	if err != nil {
		return err
	}
	return noPlace(c, dir, copyFile(ctx, c, os.Stdout, dir+"/policy/"+args[0], os.O_RDONLY))
}

// A policySource says whose policy is tested: that of a VM, of a profile, or of a file.
type policySource struct{ vm, profile, file string }

// one says whether it is said whose it is, once.
func (p *policySource) one() bool {
	n := 0
	for _, name := range []string{p.vm, p.profile, p.file} {
		if name != "" {
			n++
		}
	}
	return n == 1
}

// A trier tells what a policy decides of an event, a JSON object.
type trier func(event []byte) (policy.Trial, error)

// test tests the policy by files of events, and says whether all were decided
// as each expects.
func (p *policySource) test(ctx context.Context, files []string) error {
	if p.file != "" {
		text, err := os.ReadFile(p.file)
		if err != nil {
			return err
		}
		try, err := tryText(p.file, text)
		if err != nil {
			return err
		}
		return testFiles(files, try)
	}
	return connected(func(_ context.Context, c *tree, _ []string) error {
		dir, err := vmDir(p.vm)
		if p.profile != "" {
			var made *file
			if dir, made, err = p.likeVM(c); err == nil {
				defer made.Close() // with which the VM goes
			}
		}
		if err != nil {
			return err
		}
		f, err := c.open(dir+"/policy/test", os.O_RDWR)
		if err != nil {
			return noVM(c, p.vm, err)
		}
		defer f.Close()
		return testFiles(files, tryOpen(f))
	})(ctx, nil)
}

// replay prints which recorded requests of a VM the profile would decide
// otherwise: the VM's own, if none is said.
func (p *policySource) replay(ctx context.Context, c *tree, args []string) error {
	dir, err := vmDir(args[0])
	if err != nil {
		return err
	}
	f, err := c.open(dir+"/policy/replay", os.O_RDWR)
	if err != nil {
		return noVM(c, args[0], err)
	}
	defer f.closeWith(ctx)()
	if err := tell(f, p.profile); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	_, err = io.Copy(os.Stdout, io.NewSectionReader(f, 0, 1<<62))
	return cmp.Or(ctx.Err(), err)
}

// tryOpen returns what tries events on the policy of a VM, whose policy/test f is.
func tryOpen(f *file) trier {
	return func(event []byte) (t policy.Trial, err error) {
		if err := tell(f, string(event)); err != nil {
			return t, err
		}
		answer, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<62))
		if err == nil {
			err = json.Unmarshal(answer, &t)
		}
		return t, err
	}
}

// likeVM makes a VM of the profile, which does not start.
func (p *policySource) likeVM(c *tree) (dir string, made *file, err error) {
	if made, err = c.open("vm/clone", os.O_RDWR); err != nil {
		return "", nil, err
	}
	name, err := bufio.NewReader(made).ReadString('\n')
	if err == nil {
		err = tell(made, "set profile "+fs.Quote(p.profile))
	}
	if err != nil {
		made.Close()
		return "", nil, err
	}
	return "vm/" + strings.TrimSpace(name), made, nil
}

// tryText returns what tries events on the policy of a profile's text.
func tryText(name string, text []byte) (trier, error) {
	p, err := profiles.Parse(strings.TrimSuffix(filepath.Base(name), ".toml"), text)
	if err != nil {
		return nil, err
	}
	return func(event []byte) (t policy.Trial, err error) {
		e, err := policy.ParseEvent(event)
		if err != nil {
			return t, err
		}
		return p.Policy.Try(e), nil
	}, nil
}

func testFiles(files []string, try trier) error {
	bad := false
	for _, name := range files {
		ok, err := testFile(name, try)
		if err != nil {
			return err
		}
		bad = bad || !ok
	}
	if bad {
		return exit(1)
	}
	return nil
}

// testFile tries each line of a file, and prints as go test does.
func testFile(name string, try trier) (ok bool, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return false, err
	}
	began, n, failed := time.Now(), 0, 0
	for i, line := range bytes.Split(text, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		n++
		if why := testLine(line, try); why != "" {
			failed++
			fmt.Printf("--- FAIL: %s:%d: %s\n", name, i+1, why)
		}
	}
	if n == 0 {
		fmt.Printf("FAIL\t%s\tno events: write a line of JSON for each\n", name)
		return false, nil
	}
	if failed > 0 {
		fmt.Printf("FAIL\t%s\t%d of %d\n", name, failed, n)
		return false, nil
	}
	fmt.Printf("ok\t%s\t%d events in %v\n", name, n, time.Since(began).Round(time.Millisecond))
	return true, nil
}

// An expectation is what a line expects: a decision, or a decision and the rule.
type expectation struct {
	Decision string `json:"decision"`
	Rule     string `json:"rule"`
}

var decisions = []string{policy.Allow, policy.Ask, policy.Block, policy.Rewrite}

// testLine says what is wrong with what is decided of a line, "" if nothing is.
func testLine(line []byte, try trier) string {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return fmt.Sprintf("no JSON object: %v", err)
	}
	want, err := expected(members["expect"])
	if err != nil {
		return err.Error()
	}
	delete(members, "expect")
	event, err := json.Marshal(members)
	if err != nil {
		return err.Error()
	}
	got, err := try(event)
	if err != nil {
		return fs.Text(err)
	}
	decision := cmp.Or(got.Would, got.Decision)
	if decision == want.Decision && (want.Rule == "" || got.Rule == want.Rule) {
		return ""
	}
	why := fmt.Sprintf("got %s by %s, want %s", decision, got.Rule, want.Decision)
	if want.Rule != "" {
		why += " by " + want.Rule
	}
	if got.Reason != "" {
		why += ": " + fs.PlainLine(got.Reason)
	}
	return why
}

// expected reads what a line expects.
func expected(text json.RawMessage) (want expectation, err error) {
	if len(text) > 0 && text[0] == '"' {
		err = json.Unmarshal(text, &want.Decision)
	} else {
		err = json.Unmarshal([]byte(cmp.Or(string(text), "{}")), &want)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("%w: expect is a decision, as \"block\", or {\"decision\":\"block\",\"rule\":…}", fs.ErrInvalid)
	case want.Decision == "":
		err = fmt.Errorf("%w: expect says no decision, as \"expect\":\"block\" does", fs.ErrInvalid)
	case !slices.Contains(decisions, want.Decision):
		err = fmt.Errorf("%w: expect is %.64q: it is one of %s", fs.ErrInvalid, want.Decision, strings.Join(decisions, ", "))
	}
	return want, err
}
