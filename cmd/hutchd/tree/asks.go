package tree

import (
	"fmt"
	"strconv"
	"syscall"

	"hutch/fs"
)

func askNames(c call) ([]string, error) {
	var names []string
	for _, a := range c.At.s.Asks.Waiting() {
		names = append(names, askName(a.ID))
	}
	return names, nil
}

func askName(id uint64) string { return strconv.FormatUint(id, 10) }

// enterAsk finds a question that waits. That of one which does not any more is
// an error that err has, too: it says who was faster.
func enterAsk(c call, name string) (at, error) {
	id, err := strconv.ParseUint(name, 10, 64)
	if err != nil || askName(id) != name {
		return at{}, fmt.Errorf("%w: %s", fs.ErrNotExist, name)
	}
	a, err := c.At.s.Asks.Find(id)
	if err != nil {
		failed(c.At, err)
		return at{}, err
	}
	return at{s: c.At.s, ask: a}, nil
}

func askRequest(c call) (string, error) { return string(c.At.ask.Line()), nil }

func answerAsk(c call, text string) error {
	return c.At.s.Asks.Answer(c.Ctx, c.At.ask.ID, personOf(c.Who), text)
}

// personOf says who asks for something of the tree.
func personOf(who fs.Principal) string {
	switch {
	case who.UID == fs.NoUID && who.User == "":
		return "somebody"
	case who.UID == fs.NoUID:
		return who.User
	case who.User == "":
		return fmt.Sprintf("uid %d", who.UID)
	}
	return fmt.Sprintf("uid %d as %s", who.UID, who.User)
}

func nextAsk(c call, flags int) (fs.Handle, error) {
	return c.At.s.Asks.Next(flags&syscall.O_NONBLOCK != 0), nil
}

// askEnded has clients forget a question that is over.
func (s *Server) askEnded(id uint64) { s.gone("asks/" + askName(id)) }
