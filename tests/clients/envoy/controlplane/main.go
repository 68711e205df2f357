// A control plane of rate limits by go-control-plane's snapshot cache, as a process of its own: it serves one node, takes
// commands from its standard input and writes what happens to its standard output, an object of JSON a line.
//
//	{"set": "3", "resources": [{"name": "a", "domain": "a", "descriptors": [...]}]}    a snapshot of version 3
//	{"clear": true}                                                                    none for the node any more
//
//	controlplane -listen 127.0.0.1:0 -node envoy-ratelimit [-certificate FILE -key FILE [-clients FILE]]
//
// The files of TLS are read anew for each handshake, which has to be of version 1.3, as those of Envoy Gateway.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protojson"
)

type command struct {
	Set       *string           `json:"set"`
	Resources []json.RawMessage `json:"resources"`
	Clear     bool              `json:"clear"`
}

// An event has one of: listening, open, close, recv, sent, done (a command), refused (a handshake).
type event struct {
	What    string    `json:"what"`
	At      time.Time `json:"at"`
	Address string    `json:"address,omitempty"`
	Stream  int64     `json:"stream,omitempty"`
	Node    string    `json:"node,omitempty"`
	Version string    `json:"version,omitempty"`
	Nonce   string    `json:"nonce,omitempty"`
	Refusal string    `json:"refusal,omitempty"`
	Server  string    `json:"server,omitempty"` // the name that a handshake wanted
	Reason  string    `json:"reason,omitempty"`
}

type output struct {
	lock sync.Mutex
	to   *json.Encoder
}

func (o *output) tell(e event) {
	e.At = time.Now()
	o.lock.Lock()
	defer o.lock.Unlock()
	_ = o.to.Encode(e)
}

func (o *output) callbacks() server.Callbacks {
	return server.CallbackFuncs{
		StreamOpenFunc: func(_ context.Context, stream int64, _ string) error {
			o.tell(event{What: "open", Stream: stream})
			return nil
		},
		StreamClosedFunc: func(stream int64, _ *core.Node) { o.tell(event{What: "close", Stream: stream}) },
		StreamRequestFunc: func(stream int64, r *discovery.DiscoveryRequest) error {
			o.tell(event{What: "recv", Stream: stream, Node: r.GetNode().GetId(), Version: r.GetVersionInfo(),
				Nonce: r.GetResponseNonce(), Refusal: r.GetErrorDetail().GetMessage()})
			return nil
		},
		StreamResponseFunc: func(_ context.Context, stream int64, _ *discovery.DiscoveryRequest, r *discovery.DiscoveryResponse) {
			o.tell(event{What: "sent", Stream: stream, Version: r.GetVersionInfo(), Nonce: r.GetNonce()})
		},
	}
}

// secured makes a listener of TLS 1.3, whose refused handshakes are told.
type secured struct {
	credentials.TransportCredentials
	tell func(event)
}

func (s secured) ServerHandshake(plain net.Conn) (net.Conn, credentials.AuthInfo, error) {
	connection, info, err := s.TransportCredentials.ServerHandshake(plain)
	if err != nil {
		s.tell(event{What: "refused", Reason: err.Error()})
	} else if told, ok := info.(credentials.TLSInfo); ok {
		s.tell(event{What: "shaken", Server: told.State.ServerName})
	}
	return connection, info, err
}

func (s secured) Clone() credentials.TransportCredentials {
	return secured{s.TransportCredentials.Clone(), s.tell}
}

func transport(certificate, key, clients string) *tls.Config {
	read := func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, err
		}
		made := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}
		if clients != "" {
			text, err := os.ReadFile(clients)
			if err != nil {
				return nil, err
			}
			made.ClientCAs, made.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
			if !made.ClientCAs.AppendCertsFromPEM(text) {
				return nil, errors.New("no authority of clients")
			}
		}
		return made, nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: read}
}

// obey changes the snapshot of the node as one command says.
func obey(ctx context.Context, snapshots cache.SnapshotCache, node string, line []byte) error {
	var c command
	if err := json.Unmarshal(line, &c); err != nil {
		return err
	}
	if c.Clear {
		snapshots.ClearSnapshot(node)
		return nil
	}
	if c.Set == nil {
		return errors.New("neither set nor clear")
	}
	limits := []types.Resource{}
	for _, text := range c.Resources {
		limit := &ratelimit.RateLimitConfig{}
		if err := protojson.Unmarshal(text, limit); err != nil {
			return err
		}
		limits = append(limits, limit)
	}
	snapshot, err := cache.NewSnapshot(*c.Set, map[resource.Type][]types.Resource{resource.RateLimitConfigType: limits})
	if err != nil {
		return err
	}
	return snapshots.SetSnapshot(ctx, node, snapshot)
}

func run(arguments []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("controlplane", flag.ContinueOnError)
	address := flags.String("listen", "127.0.0.1:0", "where it listens")
	node := flags.String("node", "envoy-ratelimit", "the only node that it serves")
	certificate := flags.String("certificate", "", "its chain; without one it speaks plain text")
	key := flags.String("key", "", "its key")
	clients := flags.String("clients", "", "the authority of the certificates that clients have to show")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	told := &output{to: json.NewEncoder(out)}
	var options []grpc.ServerOption
	if *certificate != "" {
		options = append(options, grpc.Creds(secured{credentials.NewTLS(transport(*certificate, *key, *clients)), told.tell}))
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	snapshots := cache.NewSnapshotCache(false, cache.IDHash{}, nil)
	service := grpc.NewServer(options...)
	discovery.RegisterAggregatedDiscoveryServiceServer(service, server.NewServer(ctx, snapshots, told.callbacks()))
	failed := make(chan error, 1)
	go func() { failed <- service.Serve(listener) }()
	defer service.Stop()
	told.tell(event{What: "listening", Address: listener.Addr().String()})
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := obey(ctx, snapshots, *node, line); err != nil {
			return fmt.Errorf("%.200s: %w", line, err)
		}
		told.tell(event{What: "done"})
		select {
		case err := <-failed:
			return err
		default:
		}
	}
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}
