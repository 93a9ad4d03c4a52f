package sandbox

import (
	"context"
	"errors"
	"strings"
	"testing"

	"hutch/fs"
)

// A liar is a guest that answers with what it likes, one by one.
type liar struct {
	answers []string
	asked   int
}

func (l *liar) wait(context.Context) (string, error) {
	if l.asked >= len(l.answers) {
		return "", fs.ErrTimedOut
	}
	l.asked++
	return l.answers[l.asked-1], nil
}

// What a guest says of another dispatch is refused and told of, and the command
// is not lost by it: the right answer after a wrong one counts.
func TestWrongDispatch(t *testing.T) {
	const right = "0 1 2 3 dispatch ID\n"
	for _, tt := range []struct {
		answers []string
		want    string
		err     error
		alerts  int
	}{
		{[]string{right}, "0 1 2 3", nil, 0},
		{[]string{"SIGTERM 1 2 3 timeout dispatch ID\n"}, "SIGTERM 1 2 3 timeout", nil, 0},
		{[]string{"1 1 2 3 dispatch OTHER\n", right}, "0 1 2 3", nil, 1},
		{[]string{"1 1 2 3\n", "1 1 2 3 dispatch IDX\n", right}, "0 1 2 3", nil, 2},
		{[]string{"dispatch ID\n", "", " dispatch ID", right}, "", fs.ErrIO, 3},
		{[]string{"1 1 2 3 dispatch ", "1 1 2 3 dispatch id", "1 1 2 3 dispatch OTHER dispatch ID"}, "", fs.ErrIO, 3},
		{[]string{"1 1 2 3 dispatch OTHER\n"}, "", fs.ErrTimedOut, 1},
	} {
		var alerts []string
		alert := func(kind, _, text string) { alerts = append(alerts, kind+" "+text) }
		l := liar{answers: tt.answers}
		got, err := endOf(t.Context(), l.wait, "ID", alert)
		if got != tt.want || !errors.Is(err, tt.err) || len(alerts) != tt.alerts {
			t.Errorf("%q: %q, %v, alerts %q", tt.answers, got, err, alerts)
		}
		if errors.Is(tt.err, fs.ErrIO) && (err == nil || !strings.Contains(err.Error(), "see exec/cmd-ID")) {
			t.Errorf("%q: %v does not say where the command is", tt.answers, err)
		}
		for _, a := range alerts {
			if !strings.HasPrefix(a, "cmd.mismatch ") || !strings.Contains(a, "to the dispatch ID") {
				t.Errorf("%q: alert %q", tt.answers, a)
			}
		}
	}
}
