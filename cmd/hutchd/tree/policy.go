package tree

import (
	"cmp"
	"context"

	"hutch/fs"
	"hutch/mcpd/history"
	"hutch/mcpd/policy"
)

func policyRules(c call) (string, error) {
	p, err := c.At.gw.Policy()
	if err != nil {
		return "", err
	}
	return p.Text(), nil
}

func policySuggest(c call) (string, error) {
	db, release, err := c.At.gw.HoldLedger()
	if err != nil {
		return "", err
	}
	defer release()
	return history.Suggest(c.Ctx, db, c.At.gw.Whose())
}

// openPolicyTest takes an event and tells what would be decided of it.
func openPolicyTest(c call, flags int) (fs.Handle, error) {
	return c.At.s.openRPC(flags, func(_ context.Context, line string) (string, error) {
		e, err := policy.ParseEvent([]byte(line))
		if err != nil {
			return "", err
		}
		p, err := c.At.gw.Policy()
		if err != nil {
			return "", err
		}
		e.VM = cmp.Or(e.VM, c.At.gw.Whose())
		e.Profile = cmp.Or(e.Profile, c.At.gw.ProfileName())
		answer, err := fs.MarshalLine(p.Try(e))
		return string(answer) + "\n", err
	})
}

// openPolicyReplay takes the name of a profile, or an empty line.
func openPolicyReplay(c call, flags int) (fs.Handle, error) {
	return c.At.s.openRPC(flags, c.At.gw.Replay)
}
