package relay

import (
	"encoding/json"
	"errors"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/mcpd/seal"
)

// attest has the relay's key attested by the host, if it has to be.
func (l *link) attest() error {
	return l.r.signer.Attest(l.ctx, func(params json.RawMessage) (result, object json.RawMessage, err error) {
		m := parse(jsonrpc.Message{ID: []byte(`"attest"`), Method: seal.Attest, Params: params}.Encode())
		var answer jsonrpc.Message
		done := make(chan struct{})
		sent := l.ask(&m, asked{id: m.id, done: done, own: func(payload []byte) { answer, err = jsonrpc.Parse(payload) }})
		if !sent {
			return nil, nil, errLost
		}
		<-done
		if answer.Result == nil && answer.Error == nil && err == nil {
			err = errLost
		}
		return answer.Result, answer.Error, err
	})
}

var errLost = errors.New("connection to the host lost")

// unsigned answers a request that could not be signed, unless another connection
// may do it. It says whether the request was taken care of.
func (l *link) unsigned(a asked, why error) bool {
	if a.done != nil || errors.Is(why, errLost) || l.ctx.Err() != nil {
		return false
	}
	l.r.answer(a.part, failure(a.id, jsonrpc.CodeInternal, "the request is not signed: "+why.Error()))
	return true
}

// mostError is how long an error of the host is that tells of an envelope.
const mostError = 4 << 10

// renew has the key attested anew for the next request if an answer tells that
// the token is of no use any more.
func (l *link) renew(answer []byte) {
	if l.r.signer != nil && len(answer) <= mostError && seal.Renew(rawjson.Get(answer, "error")) {
		l.r.signer.Forget()
	}
}
