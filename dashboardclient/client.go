package dashboardclient

// Client talks to one dashboard. It is safe for concurrent use.
type Client struct {
	config Config
}

// New checks the configuration and returns a client. It does not connect.
func New(config Config) (*Client, error) { panic("later") }

// URL is the dashboard's address, without the token.
func (c *Client) URL() string { panic("later") }
