package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"

	"hutch/cmd/hutchd/gateway"
	"hutch/fs"
)

// maxLine is the length of the longest line of in.
const maxLine = 4 << 20

func sessionVerbs() []verb {
	return []verb{
		{Name: "call", Args: "TOOL [JSON]", Raw: true, Do: callInSession, Doc: "call a tool, its arguments quoted or as they stand; status has the id under which out has the answer"},
		{Name: "eof", Max: 0, Do: endSession, Doc: "end the input; out ends when all is answered"},
	}
}

func sessionName(c call) (string, error)   { return c.At.session.Name + "\n", nil }
func sessionStatus(c call) (string, error) { return c.At.session.Status(), nil }

func callInSession(c call, args []string) error {
	tool, arguments, err := toolCall(args[0])
	if err != nil {
		return err
	}
	return c.At.session.Call(c.Ctx, tool, arguments)
}

// toolCall takes apart what follows call: each part is a word quoted as
// everywhere, or, the arguments, the rest of the line as it stands.
func toolCall(text string) (tool string, args json.RawMessage, err error) {
	tool, rest, _ := strings.Cut(text, " ")
	if rest = strings.TrimSpace(rest); strings.HasPrefix(tool, "'") || strings.HasPrefix(rest, "'") {
		words, err := fs.Words(text)
		if err == nil && len(words) > 2 {
			err = fmt.Errorf("%w: %d words: want \"call TOOL [JSON]\"", fs.ErrInvalid, len(words)+1)
		}
		if err != nil {
			return "", nil, err
		}
		tool, rest = words[0], strings.Join(words[1:], "")
	}
	args, err = arguments(rest)
	return tool, args, err
}

func endSession(c call, _ []string) error {
	c.At.session.CloseInput()
	return nil
}

func sendInSession(c call, m string) error {
	text := bytes.TrimSpace([]byte(m))
	if len(text) == 0 {
		return nil
	}
	return c.At.session.Send(c.Ctx, text)
}

func openSessionOut(c call, flags int) (fs.Handle, error) {
	return c.At.session.Out.Open(flags&syscall.O_NONBLOCK != 0), nil
}

// openSessionData opens the session's input and output for who says initialize
// itself: for both only, so that programs which read every file of a tree keep
// it from nobody.
func openSessionData(c call, flags int) (fs.Handle, error) {
	if flags&os.O_RDWR == 0 {
		return nil, fmt.Errorf("%w: open data for reading and writing, or in and out each for one", fs.ErrPermission)
	}
	d, err := c.At.session.OpenData(c.Ctx, flags&syscall.O_NONBLOCK != 0)
	if err != nil {
		return nil, err
	}
	return &stream{Handle: d, turn: newTurn()}, nil
}

func sessionNames(c call) ([]string, error) { return c.At.gw.Sessions(), nil }

func enterSession(c call, name string) (at, error) {
	s, err := c.At.gw.Session(name)
	return atSession(c, s), err
}

func atSession(c call, s *gateway.Session) at {
	found := c.At
	found.session = s
	return found
}

func makeSession(c call, name string) error {
	if err := fs.CheckWord("session", name); err != nil {
		return err
	}
	if err := begun(c); err != nil {
		return err
	}
	return c.At.gw.MakeSession(name, personOf(c.Who))
}

func dropSession(c call, name string) error { return c.At.gw.DropSession(c.Ctx, name) }

// cloneSession makes an anonymous session: the open file is its ctl.
func cloneSession(c call, flags int) (fs.Handle, error) {
	if err := wantBoth(flags); err != nil {
		return nil, err
	}
	if err := begun(c); err != nil {
		return nil, err
	}
	s, err := c.At.gw.MakeAnonymousSession(personOf(c.Who))
	if err != nil {
		return nil, err
	}
	name := func() string { return s.Name }
	return openClone(atSession(c, s), name, sessionVerbs()), nil
}
