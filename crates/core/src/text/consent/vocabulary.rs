//! The words of notices about cookies in English, German, Chinese, French, Spanish, Italian, Portuguese, Dutch, Polish,
//! Russian and Japanese.

/// Asking for consent: the topic that a notice never lacks.
const CONSENT: &[&str] = &[
    "consent",
    "withdraw",
    "reject",
    "decline",
    "refuse",
    "opt out",
    "opt-out",
    "accept all",
    "accept cookie",
    "you agree",
    "your privacy",
    "einwillig",
    "willigen",
    "zustimm",
    "akzeptier",
    "ablehn",
    "widerruf",
    "widersp",
    "privatsphäre",
    "同意",
    "拒绝",
    "拒絕",
    "撤回",
    "接受",
    "consens",
    "accepte",
    "refus",
    "retirer",
    "acepta",
    "rechaz",
    "retirar",
    "accett",
    "rifiut",
    "revoc",
    "aceit",
    "recus",
    "rejeit",
    "toestemming",
    "akkoord",
    "weiger",
    "intrekken",
    "zgod",
    "zgadz",
    "akcept",
    "odrzu",
    "wycof",
    "соглас",
    "принима",
    "принять",
    "отказ",
    "отклон",
    "отозва",
    "許可",
    "承諾",
    "拒否",
];

/// Beginnings of words, by topic, in lower case. The first topic is consent.
pub(super) const TOPICS: [&[&str]; 6] = [
    CONSENT,
    &[
        "cookie",
        "similar technolog",
        "tracking",
        "tracker",
        "ähnliche technolog",
        "ähnlichen technolog",
        "类似技术",
        "類似技術",
        "跟踪技术",
        "追踪技术",
        "追蹤技術",
        "technologies similaires",
        "tecnologías similares",
        "tecnologie simili",
        "tecnologias semelhantes",
        "vergelijkbare technieken",
        "podobne technologie",
        "podobnych technologii",
        "куки",
        "аналогичные технологии",
        "クッキー",
        "トラッキング",
    ],
    &[
        "privacy",
        "personal data",
        "your data",
        "personal information",
        "ip address",
        "identifier",
        "browsing",
        "data protection",
        "gdpr",
        "datenschutz",
        "personenbezogen",
        "ihre daten",
        "ip-adress",
        "kennung",
        "dsgvo",
        "隐私",
        "隱私",
        "个人信息",
        "個人資料",
        "个人数据",
        "個人資訊",
        "个人资料",
        "浏览",
        "瀏覽",
        "données personnelles",
        "données à caractère personnel",
        "vie privée",
        "confidentialité",
        "identifiant",
        "rgpd",
        "datos personales",
        "privacidad",
        "identificador",
        "dati personali",
        "riservatezza",
        "dados pessoais",
        "privacidade",
        "lgpd",
        "persoonsgegevens",
        "persoonlijke gegevens",
        "dane osobowe",
        "danych osobowych",
        "prywatnoś",
        "rodo",
        "персональн",
        "конфиденциальн",
        "個人情報",
        "個人データ",
        "プライバシー",
        "ip アドレス",
        "ipアドレス",
    ],
    &[
        "partner",
        "vendor",
        "third part",
        "third-part",
        "drittanbieter",
        "dritte",
        "anbieter",
        "合作伙伴",
        "合作夥伴",
        "第三方",
        "供应商",
        "供應商",
        "partenaire",
        "tiers",
        "fournisseur",
        "socios",
        "terceros",
        "proveedor",
        "terze parti",
        "terzi",
        "fornitor",
        "parceiros",
        "terceiros",
        "fornecedor",
        "derden",
        "leverancier",
        "stron trzecich",
        "podmiot",
        "dostawc",
        "партн",
        "третьи",
        "поставщик",
        "パートナー",
        "サードパーティ",
        "ベンダー",
        "第三者",
    ],
    &[
        "personalis",
        "personaliz",
        "advertis",
        "analytics",
        "measure",
        "audience",
        "tailor",
        "relevant ads",
        "werbung",
        "anzeigen",
        "analyse",
        "messung",
        "reichweite",
        "nutzungsprofil",
        "个性化",
        "個人化",
        "個性化",
        "广告",
        "廣告",
        "分析",
        "流量",
        "统计",
        "統計",
        "publicit",
        "mesure",
        "statistiq",
        "publicidad",
        "anuncios",
        "medición",
        "analític",
        "estadístic",
        "pubblicit",
        "annunci",
        "misuraz",
        "statistic",
        "anúncios",
        "medição",
        "estatístic",
        "advertentie",
        "meting",
        "statistiek",
        "reklam",
        "pomiar",
        "statystyk",
        "analit",
        "реклам",
        "персонализ",
        "статистик",
        "аналити",
        "измерен",
        "広告",
        "測定",
        "解析",
        "パーソナライズ",
    ],
    &[
        "setting",
        "preference",
        "manage",
        "choice",
        "choose",
        "purpose",
        "necessary",
        "einstellung",
        "präferenz",
        "auswahl",
        "zweck",
        "notwendig",
        "设置",
        "設定",
        "設置",
        "偏好",
        "选择",
        "選擇",
        "必要",
        "目的",
        "paramètr",
        "paramétr",
        "préférence",
        "gérer",
        "choix",
        "finalité",
        "nécessaire",
        "configura",
        "preferencia",
        "finalidad",
        "necesari",
        "ajustes",
        "impostazion",
        "preferenz",
        "gestir",
        "gestisci",
        "scelt",
        "necessari",
        "preferência",
        "gerir",
        "gerenciar",
        "escolh",
        "finalidade",
        "instelling",
        "voorkeur",
        "beheren",
        "keuze",
        "doeleinde",
        "noodzakelijk",
        "ustawie",
        "preferencj",
        "zarządza",
        "niezbędn",
        "настро",
        "предпочт",
        "управл",
        "необходим",
        "選択",
        "管理",
    ],
];

/// Words that name the site or the reader.
pub(super) const ADDRESSES: &[&str] = &[
    // English and German
    "we",
    "our",
    "us",
    "you",
    "your",
    "wir",
    "uns",
    "unser",
    "unsere",
    "unserer",
    "unseren",
    "unserem",
    "sie",
    "ihr",
    "ihre",
    "ihrer",
    "ihren",
    "ihrem",
    "du",
    "deine",
    // French
    "nous",
    "notre",
    "nos",
    "vous",
    "votre",
    "vos",
    // Spanish, Italian, Portuguese
    "nosotros",
    "nuestro",
    "nuestra",
    "nuestros",
    "nuestras",
    "usted",
    "tu",
    "tus",
    "noi",
    "nostro",
    "nostra",
    "nostri",
    "nostre",
    "tuo",
    "tua",
    "tuoi",
    "tue",
    "suoi",
    "nós",
    "nosso",
    "nossa",
    "nossos",
    "nossas",
    "você",
    "seu",
    "sua",
    "seus",
    "suas",
    // Dutch and Polish
    "wij",
    "onze",
    "uw",
    "jouw",
    "je",
    "nasz",
    "nasza",
    "nasze",
    "nasi",
    "naszych",
    "naszej",
    "twoje",
    "twoich",
    "państwa",
    // Russian
    "мы",
    "наш",
    "наши",
    "наших",
    "нашего",
    "вы",
    "вас",
    "вам",
    "ваш",
    "ваши",
    "ваших",
    "вашего",
    "вашу",
];

/// The same for languages that do not separate words.
pub(super) const UNSPACED_ADDRESSES: &[&str] = &[
    "我们",
    "我們",
    "您",
    "你",
    "本网站",
    "本網站",
    "当社",
    "弊社",
    "当サイト",
    "私たち",
    "お客様",
    "あなた",
    "ユーザー",
];

#[cfg(test)]
mod tests {
    use super::super::is_notice;

    const NOTICES: [(&str, &str); 7] = [
        (
            "french",
            "Nous et nos 849 partenaires stockons et accédons à des informations sur votre appareil, telles que \
             des identifiants uniques de cookies, pour traiter les données personnelles. Avec votre accord, nous et nos \
             partenaires utilisons des cookies ou technologies similaires pour stocker, consulter et traiter des données \
             personnelles telles que votre visite sur ce site internet, les adresses IP et les identifiants de cookie. \
             Certains partenaires ne demandent pas votre consentement pour traiter vos données et se fondent sur leur intérêt \
             commercial légitime. Vous pouvez retirer votre consentement ou vous opposer au traitement des données fondé sur \
             l'intérêt légitime à tout moment en cliquant sur « En savoir plus » ou dans notre politique de confidentialité \
             sur ce site internet. Nos partenaires et nous traitons les données suivantes : publicités et contenu \
             personnalisés, mesure de performance des publicités et du contenu, études d’audience et développement de \
             services.",
        ),
        (
            "spanish",
            "Nosotros y nuestros 849 socios almacenamos y accedemos a información en un dispositivo, como \
             cookies, y procesamos datos personales, como identificadores únicos. Con su consentimiento, nosotros y nuestros \
             socios podemos utilizar datos de localización geográfica precisa e identificación mediante las características \
             de dispositivos. Puede hacer clic para otorgarnos su consentimiento a nosotros y a nuestros socios para que \
             llevemos a cabo el procesamiento previamente descrito. De forma alternativa, puede acceder a información más \
             detallada y cambiar sus preferencias antes de otorgar o negar su consentimiento. Tenga en cuenta que algún \
             procesamiento de sus datos personales puede no requerir de su consentimiento, pero usted tiene el derecho de \
             rechazar tal procesamiento. Sus preferencias se aplicarán solo a este sitio web.",
        ),
        (
            "italian",
            "Noi e i nostri 849 partner archiviamo e accediamo a informazioni su un dispositivo, come gli \
             identificatori unici presenti nei cookie, per il trattamento dei dati personali. Con il tuo consenso, noi e i \
             nostri partner possiamo utilizzare dati di geolocalizzazione precisi e l'identificazione tramite la scansione \
             del dispositivo. Puoi fare clic per consentire a noi e ai nostri partner il trattamento per le finalità sopra \
             descritte. In alternativa puoi accedere a informazioni più dettagliate e modificare le tue preferenze prima di \
             acconsentire o di negare il consenso. Si rende noto che alcuni trattamenti dei dati personali possono non \
             richiedere il tuo consenso, ma hai il diritto di opporti a tale trattamento. Le tue preferenze si applicheranno \
             solo a questo sito web.",
        ),
        (
            "russian",
            "Мы и наши партнеры используем файлы cookie и аналогичные технологии для хранения и обработки \
             персональных данных, таких как уникальные идентификаторы. С вашего согласия мы и наши партнеры можем \
             использовать точные данные о местоположении и идентификацию путем сканирования устройства. Вы можете нажать \
             кнопку, чтобы дать согласие на обработку данных нами и нашими партнерами. Кроме того, вы можете получить более \
             подробную информацию и изменить свои настройки до того, как дать согласие или отказаться от него. Обратите \
             внимание, что для обработки некоторых ваших персональных данных может не требоваться ваше согласие, но вы имеете \
             право возразить против такой обработки.",
        ),
        (
            "japanese",
            "当サイトおよび当社のパートナーは、デバイス上の情報を保存またはアクセスするためにクッキーなどの技術を使用し、固有識別子などの個人データを処理します。 \
             お客様の同意を得て、当社およびパートナーは、正確な位置情報データおよびデバイススキャンによる識別情報を使用することがあります。 \
             クリックすることで、当社およびパートナーによる上記の処理に同意することができます。また、同意または拒否する前に、より詳細な情報を確認し、設定を変更することもできます。 \
             お客様の個人データの一部の処理には同意が必要ない場合がありますが、お客様にはそのような処理に異議を唱える権利があります。",
        ),
        (
            "portuguese",
            "Nós e os nossos parceiros usamos cookies e tecnologias semelhantes para guardar informações no seu \
             dispositivo e tratar dados pessoais. Pode aceitar ou rejeitar estas finalidades e alterar as suas preferências a \
             qualquer momento. Os nossos parceiros medem a publicidade e o conteúdo que você vê.",
        ),
        (
            "polish",
            "Wraz z naszymi partnerami stosujemy pliki cookie i podobne technologie, aby przetwarzać dane \
             osobowe. Państwa zgoda jest dobrowolna i można ją wycofać w ustawieniach. Nasi partnerzy dostarczają \
             spersonalizowane reklamy i prowadzą pomiar reklam oraz statystyki naszych stron.",
        ),
    ];

    const ARTICLES: [(&str, &str); 4] = [
        (
            "french",
            "La Commission nationale a infligé jeudi une amende à trois éditeurs qui déposaient des cookies sans \
             consentement. Le bouton de refus était caché derrière deux écrans, a constaté l'autorité, alors qu'un seul clic \
             suffisait pour accepter. Les partenaires publicitaires recevaient des identifiants dès la première visite. \
             L'amende la plus lourde, quarante millions d'euros, frappe un groupe de presse de Lyon. Les éditeurs ont deux \
             mois pour faire appel devant le tribunal.",
        ),
        (
            "spanish",
            "La agencia multó el jueves a tres editoriales por instalar cookies sin permiso de los lectores. El \
             botón para rechazar estaba oculto detrás de dos pantallas, según la resolución, mientras que bastaba un clic \
             para aceptar. La mayor multa recae en un grupo de Barcelona, que anunció un recurso. El ministerio prepara una \
             ley que prohíbe esas prácticas desde enero.",
        ),
        (
            "russian",
            "Суд в Казани оштрафовал трёх издателей за установку cookie без согласия читателей. Кнопка отказа \
             была спрятана за двумя экранами, говорится в решении. Крупнейший штраф получил издательский дом, который уже \
             объявил об обжаловании. Эксперты ожидают, что до конца года проверят ещё сто сайтов.",
        ),
        (
            "italian, a recipe",
            "Cookie al cioccolato: mescola il burro con lo zucchero, aggiungi le uova e la farina. Dividi \
             l'impasto in dodici palline e cuocile per dieci minuti. Lasciale raffreddare prima di servirle. Si conservano \
             per una settimana in una scatola di latta, ma di solito finiscono prima.",
        ),
    ];

    #[test]
    fn notices_are_distinguished_from_articles_in_these_languages() {
        for (language, notice) in NOTICES {
            assert!(is_notice(notice), "{language}");
        }
        for (language, article) in ARTICLES {
            assert!(!is_notice(article), "{language}");
        }
    }
}
