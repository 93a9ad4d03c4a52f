package vault

import (
	"context"

	"github.com/openbao/openbao/api/v2"
)

// maxLeases is how many leases are kept at once.
const maxLeases = 256

// A lease is what the vault has lent: it is renewed, and what it is for does not
// change while it lives.
type lease struct {
	id   string
	data map[string]any
}

// leased returns what is lent of a path.
func (v *Vault) leased(path string) (map[string]any, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	l := v.leases[path]
	if l == nil {
		return nil, false
	}
	return l.data, true
}

// keep has a lease be renewed until the vault does not renew it any more, if s has
// one.
func (v *Vault) keep(c *api.Client, path string, s *api.Secret) {
	if s.LeaseID == "" || s.LeaseDuration <= 0 {
		return
	}
	v.mu.Lock()
	kept := len(v.leases) < maxLeases
	if kept {
		v.leases[path] = &lease{s.LeaseID, s.Data}
	}
	v.mu.Unlock()
	if kept {
		v.renew(c, s, func() { v.drop(path, s.LeaseID) })
	}
}

// drop forgets a lease that is over.
func (v *Vault) drop(path, id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if l := v.leases[path]; l != nil && l.id == id {
		delete(v.leases, path)
	}
}

// renew renews a lease or a token, at two thirds of its time, until that is no use
// any more; then it does over. While the vault is not reached it goes on trying.
func (v *Vault) renew(c *api.Client, s *api.Secret, over func()) {
	w, err := c.NewLifetimeWatcher(&api.LifetimeWatcherInput{Secret: s})
	if err != nil || !v.begin() {
		over()
		return
	}
	go func() {
		defer v.tasks.Done()
		defer context.AfterFunc(v.life, w.Stop)()
		w.Start()
		if v.life.Err() == nil {
			over()
		}
	}()
}

// giveBack revokes what was lent: the token, and with it its leases, or these. What
// the vault does not hear of runs out by itself.
func (v *Vault) giveBack(ctx context.Context, c *api.Client, leases []*lease) {
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	default:
		return // somebody logs in, in vain
	}
	if v.login.lent {
		c.Auth().Token().RevokeSelfWithContext(ctx, "")
		return
	}
	for _, l := range leases {
		c.Sys().RevokeWithContext(ctx, l.id)
	}
}
