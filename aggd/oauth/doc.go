// Package oauth gets access tokens for remote MCP servers, as the authorization
// part of MCP's specification of 2025-11-25 has it, and those before it: OAuth 2.1
// with PKCE, where what to ask is found out from the server itself (RFC 9728, RFC
// 8414, OpenID discovery), hutch registers itself (RFC 7591) where nobody has, and
// tokens are for the server that they were got for alone (RFC 8707).
//
// A login is a person's affair: in a browser, which returns to a port of this
// machine (RFC 8252), or on another device (RFC 8628). From then on tokens are
// renewed without one, until the authorization server refuses.
//
// The MCP server and whom it names are strangers: their answers are bounded, they
// are asked over https and at public addresses only, other hosts are reached only
// where a person has named them, and nobody's redirect leads to another origin.
package oauth
