package asks

import (
	"context"
	"fmt"
	"strings"

	"hutch/fs"
)

// The answers that a person can give.
const (
	wordAllow  = "allow"
	wordAlways = "allow always"
	wordExact  = "allow always exact"
	wordDeny   = "deny"
)

// parse reads an answer: allow, allow always, allow always exact, deny, or
// deny and a reason, the rest of the line.
func parse(text string) (Answer, error) {
	word, rest := fs.CutBlank(strings.TrimSpace(text))
	rest = strings.TrimSpace(rest)
	switch {
	case word == wordDeny:
		return Answer{Word: word, Reason: rest}, nil
	case word == wordAllow && rest == "":
		return Answer{Word: word, Allow: true}, nil
	}
	for _, always := range []string{wordAlways, wordExact} {
		if strings.Join(strings.Fields(text), " ") == always {
			return Answer{Word: always, Allow: true}, nil
		}
	}
	return Answer{}, fmt.Errorf("%w: %.64q: answer allow, allow always, allow always exact, or deny [REASON]", fs.ErrInvalid, text)
}

// Answer answers the question of that number; who says it. The first answer
// counts. One that cannot be, as for always where the profile is locked, is an
// error, and the question goes on waiting.
func (t *Table) Answer(ctx context.Context, id uint64, who, text string) error {
	answer, err := parse(text)
	if err != nil {
		return err
	}
	answer.Who = who
	a, err := t.claim(id, who)
	if err != nil {
		return err
	}
	if answer.Word == wordAlways || answer.Word == wordExact {
		if err := a.always(ctx, who, answer.Word == wordExact); err != nil {
			t.release(a)
			return err
		}
	}
	if !t.remove(a, fmt.Sprintf("%s answered %s", who, answer.Word)) {
		_, err := t.Find(id)
		return err
	}
	a.answered <- answer
	return nil
}

// claim lets nobody else answer a question.
func (t *Table) claim(id uint64, who string) (*Ask, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, err := t.find(id)
	switch {
	case err != nil:
		return nil, err
	case a.by != "":
		return nil, fmt.Errorf("%w: ask %d: %s is answering it", fs.ErrBusy, id, a.by)
	}
	a.by = who
	return a, nil
}

func (t *Table) release(a *Ask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.by = ""
}

func (a *Ask) always(ctx context.Context, who string, exact bool) error {
	if a.Always == nil {
		return fmt.Errorf("%w: ask %d cannot be allowed always", fs.ErrUnsupported, a.ID)
	}
	return a.Always(ctx, who, exact)
}
