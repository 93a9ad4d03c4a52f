package policy

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
)

// A cedarRequest is an event as Cedar has it, with the entities that are made
// for it. It gets entities: those, and what else the profile says of them.
type cedarRequest struct {
	cedar.Request
	own  [2]cedar.Entity // the principal and the resource
	base cedar.EntityMap
}

// request returns the request that an event is, but for its action. Who asks is
// Client::"VM", or User::"NAME" through the tree, both in Profile::"NAME". What
// is asked for has the name that the guest knows, and is in MCP::"SERVER".
func (s *cedarSet) request(e *Event, kind string) (*cedarRequest, *refusal) {
	args, refused := cedarArgs(e.Args)
	if refused != nil {
		return nil, refused
	}
	r := &cedarRequest{base: s.entities}
	r.Principal = cedar.NewEntityUID("Client", cedar.String(e.VM))
	if e.Principal != "" {
		r.Principal = cedar.NewEntityUID("User", cedar.String(e.Principal))
	}
	name, _ := toolOf(e)
	if e.Arranged {
		name = e.Name
	}
	name = cmp.Or(name, e.Name, e.Tool)
	r.Resource = cedar.NewEntityUID(cedar.EntityType(kind), cedar.String(name))

	context := cedar.RecordMap{"vm": cedar.String(e.VM), "session": cedar.String(e.Session), "process": cedar.String(e.Process), "method": cedar.String(e.Method)}
	maps.Copy(context, args)
	r.Context = cedar.NewRecord(context)

	who := cedar.RecordMap{"vm": cedar.String(e.VM), "profile": cedar.String(e.Profile)}
	r.own[0] = s.entity(r.Principal, cedar.NewEntityUID("Profile", cedar.String(e.Profile)), who)
	what := cedar.RecordMap{"name": cedar.String(name), "tool": cedar.String(e.Tool), "server": cedar.String(e.Server), "feature": cedar.String(kind)}
	if kind == "Resource" {
		what["uri"] = cedar.String(name)
	}
	maps.Copy(what, args)
	r.own[1] = s.entity(r.Resource, cedar.NewEntityUID("MCP", cedar.String(e.Server)), what)
	return r, nil
}

// entity returns an entity of a request with what the profile says of it,
// which cannot change what is known of it.
func (s *cedarSet) entity(id, parent cedar.EntityUID, known cedar.RecordMap) cedar.Entity {
	said := s.entities[id]
	parents := append(slices.Collect(said.Parents.All()), parent)
	attributes := said.Attributes.Map()
	if attributes == nil {
		attributes = cedar.RecordMap{}
	}
	maps.Copy(attributes, known)
	return cedar.Entity{UID: id, Parents: cedar.NewEntityUIDSet(parents...), Attributes: cedar.NewRecord(attributes), Tags: said.Tags}
}

// Get is for Cedar.
func (r *cedarRequest) Get(id cedar.EntityUID) (cedar.Entity, bool) {
	for _, e := range r.own {
		if e.UID == id {
			return e, true
		}
	}
	return r.base.Get(id)
}

// cedarArgs returns arguments as attributes: arg_NAME, if they are texts, whole
// numbers, decimals (to four digits), or true or false; else arg_NAME_present.
func cedarArgs(text []byte) (cedar.RecordMap, *refusal) {
	args, err := parseArgs(text)
	if err != nil {
		return nil, refuse(ToolNotAllowed, "the arguments cannot be read: %v", err)
	}
	attributes := cedar.RecordMap{}
	for _, part := range args.parts {
		name := cedar.String("arg_" + part.name)
		v, err := part.cedar()
		if err != nil {
			return nil, refuse(ToolNotAllowed, "argument %.64q %v", part.name, err)
		}
		if v == nil {
			name, v = name+"_present", cedar.True
		}
		if _, twice := attributes[name]; twice {
			return nil, refuse(ToolNotAllowed, "the arguments have %q twice", part.name)
		}
		attributes[name] = v
	}
	return attributes, nil
}

// cedar returns a value that Cedar has, nil if it has none of that kind. What its
// decimal does not take as written becomes a Long if it is whole, as 1e3. What
// Cedar has no number for is an error, as a policy would take it for absent.
func (v *value) cedar() (cedar.Value, error) {
	switch {
	case v.kind == '"':
		return cedar.String(v.text), nil
	case v.kind != 0 || v.text == "<nil>":
		return nil, nil
	case v.text == "true" || v.text == "false":
		return cedar.Boolean(v.text == "true"), nil
	}
	if n, err := strconv.ParseInt(v.text, 10, 64); err == nil {
		return cedar.Long(n), nil
	}
	if d, err := types.ParseDecimal(v.text); err == nil {
		return d, nil
	}
	f, err := strconv.ParseFloat(v.text, 64)
	if err != nil || math.Abs(f) >= 1<<63 {
		return nil, errors.New("is a number that is too large for Cedar")
	}
	if f == math.Trunc(f) {
		return cedar.Long(int64(f)), nil
	}
	d, err := types.ParseDecimal(strconv.FormatFloat(f, 'f', 4, 64))
	if err != nil {
		return nil, errors.New("is a number that is too large for Cedar")
	}
	return d, nil
}
