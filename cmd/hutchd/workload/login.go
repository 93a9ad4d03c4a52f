package workload

import (
	"context"
	"errors"
	"fmt"

	"hutch/aggd/oauth"
	"hutch/fs"
	"hutch/profiles/runconfig"
)

// Login has a person log in to a remote server, and keeps the tokens that come of it:
// LoginText says what the person has to do. It goes on when nobody waits for it any more,
// and ends with ctx, at a Logout and when the server is stopped. A server that takes no
// token that there was is started then, and one that runs is started anew.
func (s *Server) Login(ctx context.Context, flow oauth.Flow) error {
	k, err := s.loggedIn()
	if err != nil {
		return err
	}
	s.mu.Lock()
	logins := s.logins
	s.mu.Unlock()
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := context.AfterFunc(logins, func() {
		why := context.Cause(logins)
		if !errors.Is(why, errLoginEnded) {
			why = fmt.Errorf("%w: %s", fs.ErrNotExist, s)
		}
		cancel(why)
	})
	err = k.Login(wait, flow, s.setPending)
	over()
	if !errors.Is(err, oauth.ErrUnderWay) {
		s.setPending(oauth.Pending{})
	}
	switch state := s.told(); {
	case err != nil:
		return fmt.Errorf("%s: %w", s, err)
	case state == runconfig.Unauthenticated:
		return s.Start(ctx)
	case state.Live():
		return errors.Join(s.Stop(ctx), s.Start(ctx))
	}
	return nil
}

// errLoginEnded ends a login that somebody does not want any more.
var errLoginEnded = errors.New("the login was ended")

// endLogin ends the login that is under way, if one is.
func (s *Server) endLogin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLogins(errLoginEnded)
	s.logins, s.endLogins = context.WithCancelCause(s.Context())
}

// Logout ends a login that is under way, and forgets the tokens of a remote server. One
// that runs takes none from then on.
func (s *Server) Logout(ctx context.Context) error {
	s.endLogin()
	k, err := s.loggedIn()
	if err != nil {
		return err
	}
	return s.do(ctx, func(ctx context.Context) error {
		if err := k.Forget(ctx); err != nil {
			return err
		}
		s.show(k, "")
		if !s.told().Live() {
			return nil
		}
		return s.refuse(s.wantsLogin(oauth.ErrLogin))
	})
}

// loggedIn returns the credential of a server that a person can log in to.
func (s *Server) loggedIn() (*credential, error) {
	c, err := s.ready()
	if err != nil {
		return nil, err
	}
	k, err := s.credentialFor(c)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s, err)
	case k == nil && c.Server().IsRemote():
		return nil, fmt.Errorf("%w: %s: its config says what it is shown in place of a login, or it is not asked by https", fs.ErrInvalid, s)
	case k == nil:
		return nil, fmt.Errorf("%w: %s runs here: nobody logs in to it", fs.ErrInvalid, s)
	}
	return k, nil
}

func (s *Server) setPending(p oauth.Pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = p
}

// LoginText is what a login waits for: "url URL" to open, or "code CODE at URL"; ""
// where there is none.
func (s *Server) LoginText() string {
	s.mu.Lock()
	p := s.pending
	s.mu.Unlock()
	switch {
	case p.URL == "":
		return ""
	case p.Code == "":
		return "url " + p.URL + "\n"
	}
	return "code " + fs.Quote(p.Code) + " at " + p.URL + "\n"
}
