package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"hutch/fs"
	"hutch/mcpd/policy"
)

// A question is what a line of asks tells.
type question struct {
	ID    uint64    `json:"id"`
	Since time.Time `json:"timestamp"`
	policy.Event
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
}

// what returns what the question is about, on a line.
func (q *question) what() string {
	if q.Args == nil {
		return q.What()
	}
	return q.What() + " " + string(q.Args) // JSON, which the service has escaped
}

// defineAsks has the command that lists what waits for a person, or asks.
func defineAsks(flags *flag.FlagSet) action {
	interactive := flags.Bool("i", false, "ask about each at the terminal, and about those that come")
	asJSON := flags.Bool("json", false, "print a JSON object a line")
	return connected(func(ctx context.Context, c *tree, _ []string) error {
		if *interactive {
			return askAll(ctx, c, os.Stdin, os.Stdout)
		}
		return listAsks(c, *asJSON)
	})
}

func listAsks(c *tree, asJSON bool) error {
	ids, err := folders(c, "asks")
	if err != nil {
		return err
	}
	t := newTable(asJSON, "ID", "VM", "WAITS", "RULE", "WHAT")
	for _, id := range ids {
		line, err := readFile(c, path.Join("asks", id, "request"))
		if isMissing(err) {
			continue // it was answered meanwhile
		}
		var q question
		if err == nil {
			err = json.Unmarshal([]byte(line), &q)
		}
		if err != nil {
			return err
		}
		waits := time.Since(q.Since).Round(time.Second).String()
		if err := t.row(json.RawMessage(line), id, q.VM, waits, q.Rule, cut(q.what(), 60)); err != nil {
			return err
		}
	}
	return t.flush()
}

// askAll asks about what waits and what comes, until the input ends or it is
// interrupted.
func askAll(ctx context.Context, c *tree, in *os.File, out io.Writer) error {
	f, err := c.open("asks/next", os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.closeWith(ctx)()
	coming, broken := make(chan uint64), make(chan error, 1)
	ended, end := context.WithCancel(ctx)
	defer end()
	go func() { broken <- readComing(ended, f, coming) }()
	typed := make(chan string)
	go func() { // it reads on when this has returned: nobody else does
		defer close(typed)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			typed <- lines.Text()
		}
	}()
	for last := uint64(0); ; {
		over, err := askWaiting(ctx, c, &last, in, typed, out)
		if !over && err == nil {
			over, err = awaitQuestion(ctx, last, coming, broken, typed)
		}
		if over || err != nil {
			return err
		}
	}
}

// readComing tells the number of each question that asks/next has.
func readComing(ctx context.Context, next io.Reader, coming chan<- uint64) error {
	for lines := json.NewDecoder(next); ; {
		var q question
		if err := lines.Decode(&q); err != nil {
			return err
		}
		select {
		case coming <- q.ID:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitQuestion waits for a question after the last. A line meanwhile answers
// nothing, and must not answer what comes.
func awaitQuestion(ctx context.Context, last uint64, coming <-chan uint64, broken <-chan error, typed <-chan string) (over bool, err error) {
	for {
		select {
		case id := <-coming:
			if id > last {
				return dropTyped(typed), nil
			}
		case line, ok := <-typed:
			if !ok {
				return true, nil
			}
			dropLine(line)
		case err := <-broken:
			if err == io.EOF || ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return true, err
		case <-ctx.Done():
			return true, context.Cause(ctx)
		}
	}
}

// dropTyped drops the lines that are there.
func dropTyped(typed <-chan string) (over bool) {
	for {
		select {
		case line, ok := <-typed:
			if !ok {
				return true
			}
			dropLine(line)
		default:
			return false
		}
	}
}

func dropLine(line string) {
	fmt.Fprintf(os.Stderr, "hutch: no question was shown: %s is dropped\n", fs.QuoteLine(line))
}

// askWaiting asks about all that wait after the last. Lines of a pipe or a file
// answer one after the other; a person answers what the terminal shows.
func askWaiting(ctx context.Context, c *tree, last *uint64, in *os.File, typed <-chan string, out io.Writer) (over bool, err error) {
	names, err := folders(c, "asks")
	if err != nil {
		return true, err
	}
	var ids []uint64
	for _, name := range names {
		if id, err := strconv.ParseUint(name, 10, 64); err == nil && id > *last {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		*last = id
		line, err := readFile(c, fmt.Sprintf("asks/%d/request", id))
		if isMissing(err) {
			continue // it was answered meanwhile
		}
		var q question
		if err == nil {
			err = json.Unmarshal([]byte(line), &q)
		}
		if err != nil {
			return true, err
		}
		if fd := int(in.Fd()); term.IsTerminal(fd) {
			flushInput(fd)
			dropTyped(typed)
		}
		if over, err := askOne(ctx, c, &q, typed, out); over || err != nil {
			return true, err
		}
	}
	return false, nil
}

const askHelp = "y: allow, n: deny, a: allow always, e: allow always with these arguments, s: leave it, or the reason of a deny"

// typedAnswers are what can be typed, and the answer that it is.
var typedAnswers = map[string]string{
	"y": "allow", "yes": "allow", "allow": "allow",
	"n": "deny", "no": "deny", "deny": "deny",
	"a": "allow always", "always": "allow always",
	"e": "allow always exact", "exact": "allow always exact",
}

// typedAnswer returns the answer that a line is: one of the words, else a deny with
// that as the reason.
func typedAnswer(line string) string {
	if answer := typedAnswers[strings.ToLower(line)]; answer != "" {
		return answer
	}
	switch word, reason := fs.CutBlank(line); strings.ToLower(word) {
	case "n", "deny": // but not no, which the reason may begin with
		line = strings.TrimSpace(reason)
	}
	return "deny " + line
}

// askOne asks about one question, again where the answer is refused.
func askOne(ctx context.Context, c *tree, q *question, typed <-chan string, out io.Writer) (over bool, err error) {
	id := strconv.FormatUint(q.ID, 10)
	fmt.Fprintf(out, "%s %s: %s\n  %s: %s\n", id, fs.QuoteLine(q.VM), q.what(), fs.QuoteLine(q.Rule), fs.PlainLine(q.Reason))
	for {
		fmt.Fprintf(out, "allow? [ynaes?] ")
		var line string
		var ok bool
		select {
		case line, ok = <-typed:
		case <-ctx.Done():
		}
		if !ok {
			fmt.Fprintln(out)
			return true, context.Cause(ctx)
		}
		switch line = strings.TrimSpace(line); line {
		case "s", "S":
			return false, nil
		case "", "?":
			fmt.Fprintln(out, askHelp)
			continue
		}
		err := answerAsk(c, id, typedAnswer(line))
		if err == nil {
			return false, nil
		}
		fmt.Fprintln(out, fs.Text(err))
		if isMissing(err) {
			return false, nil // somebody else was faster, or nobody waits any more
		}
	}
}

func answerAsk(c *tree, id, answer string) error {
	dir, err := entryOf("asks", "a question", id)
	if err != nil {
		return err
	}
	return writeFile(c, path.Join(dir, "answer"), answer+"\n")
}

// defineAllow has the command that answers questions with allow.
func defineAllow(flags *flag.FlagSet) action {
	always := flags.Bool("always", false, "also from now on, for the tool")
	exact := flags.Bool("exact", false, "also from now on, for the tool with the same arguments")
	return each(func(c *tree, id string) error {
		switch {
		case *exact:
			return answerAsk(c, id, "allow always exact")
		case *always:
			return answerAsk(c, id, "allow always")
		}
		return answerAsk(c, id, "allow")
	})
}

// deny answers a question with deny and a reason, if there is one.
func deny(_ context.Context, c *tree, args []string) error {
	return answerAsk(c, args[0], strings.Join(append([]string{"deny"}, args[1:]...), " "))
}
